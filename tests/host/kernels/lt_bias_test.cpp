#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "forward_support.hpp"

using namespace forward_test;
using Names = std::vector<std::string>;

TEST_CASE("what cuBLASLt cannot fuse is left out with the reason") {
  const auto backend = fake_device::fresh_backend();
  Operands o;
  GemmForward call = o.call();
  SUBCASE("an activation it lacks or has in another form [C19]") {
    for (const ActKind act : {ActKind::LeakyReLU, ActKind::ELU, ActKind::GELU, ActKind::GELUTanh,
                              ActKind::SiLU, ActKind::Sigmoid, ActKind::Tanh}) {
      call.attrs.act = act;
      CHECK(contains(reason_of(lower(*backend, call), "lt_fused"), ai::to_string(act)));
    }
  }
  SUBCASE("a second result") {
    call.Z = o.z.tensor();
    CHECK(contains(reason_of(lower(*backend, call), "lt_fused"), "Z"));
  }
  SUBCASE("a bias along the other axis [C11]") {
    call.bias = o.per_m.tensor();
    CHECK(contains(reason_of(lower(*backend, call), "lt_fused"), "PerM"));
  }
  SUBCASE("a scalar bias") {
    call.bias = o.scalar.tensor();
    CHECK(contains(reason_of(lower(*backend, call), "lt_fused"), "Scalar"));
  }
  SUBCASE("a strided bias") {
    const Matrix column(kN, 1, 2);
    call.bias = ai::make_tensor_1d(column.data(), kN, ai::DType::F32, ai::Device::CUDA, 0, 3);
    CHECK(contains(reason_of(lower(*backend, call), "lt_fused"), "stride 3"));
  }
  SUBCASE("a bias that is 4-byte aligned only [C13]") {
    const Matrix shifted(1, kN, 0, 1);
    call.bias = shifted.tensor();
    CHECK(contains(reason_of(lower(*backend, call), "lt_fused"), "this one 4"));
  }
}

TEST_CASE("a bias before an activation of ours, or before Z, is added by cuBLASLt") {
  const auto backend = fake_device::fresh_backend();
  Operands o;
  GemmForward call = o.call();
  call.bias = o.per_n.tensor();
  const auto is_open = [&] {
    const Task task = lower(*backend, call);
    if (fake_device::find(task, "lt_bias") != nullptr) return false;
    for (const char* name : {"lt_bias/0", "lt_bias/1", "lt_bias/2"}) {
      const ai::Candidate* candidate = fake_device::find(task, name);
      REQUIRE(candidate != nullptr);
      CHECK(candidate->trusted);
      CHECK(candidate->steps.size() == 2);
    }
    CHECK(task.candidates.back().name == "lt_epilogue/fallback");
    return true;
  };
  SUBCASE("an activation without Z, unless one call does both") {
    for (int act = 0; act < 9; ++act) {
      call.attrs.act = static_cast<ActKind>(act);
      const bool at_once = call.attrs.act == ActKind::None || call.attrs.act == ActKind::ReLU;
      CHECK(is_open() == !at_once);
      if (at_once) CHECK(contains(reason_of(lower(*backend, call), "lt_bias"), "one call"));
    }
  }
  SUBCASE("any activation with Z") {
    call.Z = o.z.tensor();
    for (int act = 0; act < 9; ++act) {
      call.attrs.act = static_cast<ActKind>(act);
      CHECK(is_open());
    }
  }
  SUBCASE("before the road that adds it in a kernel") {
    call.attrs.act = ActKind::Tanh;
    const Task task = lower(*backend, call);
    CHECK(fake_device::names(task) ==
          Names{"fused", "lt_fused", "epilogue", "lt_bias/0", "lt_bias/1", "lt_bias/2",
                "lt_epilogue/0", "lt_epilogue/1", "lt_epilogue/2", "lt_epilogue/fallback"});
  }
  SUBCASE("no bias") {
    call.bias.reset();
    call.Z = o.z.tensor();
    CHECK(reason_of(lower(*backend, call), "lt_bias") == "there is no bias");
  }
  SUBCASE("a bias along the other axis, or one that is 4-byte aligned only") {
    const Matrix shifted(1, kN, 0, 1);
    call.attrs.act = ActKind::Tanh;
    call.bias = o.per_m.tensor();
    CHECK(contains(reason_of(lower(*backend, call), "lt_bias"), "PerM"));
    call.bias = shifted.tensor();
    CHECK(contains(reason_of(lower(*backend, call), "lt_bias"), "this one 4"));
  }
  SUBCASE("cuBLASLt has no algorithm with a bias") {
    fake_lt::state().knows_epilogues = false;
    call.attrs.act = ActKind::Tanh;
    CHECK(contains(reason_of(lower(*backend, call), "lt_bias"), "no algorithm"));
  }
}

TEST_CASE("a bias of one element is fused where there is one column") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  const Matrix b(kK, 1);
  const Matrix y(kM, 1);
  const Task task = lower(
      *backend, {.A = o.a.tensor(), .B = b.tensor(), .bias = o.scalar.tensor(), .Y = y.tensor()});
  CHECK(fake_device::find(task, "lt_fused/0") != nullptr);
}
