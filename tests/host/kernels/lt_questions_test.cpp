#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "forward_support.hpp"

using namespace forward_test;
using ai::Candidate;

namespace {

/// What cuBLASLt is called with when the candidate runs.
fake_lt::Call call_of(const Candidate& candidate) {
  fake_lt::state().calls.clear();
  REQUIRE(fake_device::Runner().run(candidate).ok());
  REQUIRE(fake_lt::state().calls.size() == 1);
  return fake_lt::state().calls[0];
}

}  // namespace

TEST_CASE("equal questions are put to cuBLASLt once, and each task counts its own") {
  const auto backend = fake_device::fresh_backend();
  const Operands o, copy;
  GemmForward call = o.call();
  call.attrs.act = ActKind::ReLU;
  const auto asked_for = [&](const GemmForward& forward) {
    fake_lt::state().questions.clear();
    const Task task = lower(*backend, forward);
    CHECK(task.queries == fake_lt::state().questions.size());
    return task.queries;
  };
  REQUIRE(asked_for(call) == 6);  // fused and plain, under three limits
  SUBCASE("the same layer once more") {
    CHECK(asked_for(call) == 0);
    const Task task = lower(*backend, call);
    CHECK(fake_device::names(task).size() == 10);
    CHECK(call_of(*fake_device::find(task, "lt_fused/1")).algorithm == 2);
  }
  SUBCASE("over other memory") {
    call = copy.call();
    call.attrs.act = ActKind::ReLU;
    CHECK(asked_for(call) == 0);
    CHECK(call_of(lower(*backend, call).candidates.back()).d_data == copy.y.data());
  }
  SUBCASE("another activation, which shares the plain product") {
    call.attrs.act = ActKind::Tanh;
    CHECK(asked_for(call) == 0);
  }
  SUBCASE("another alpha") {
    call.attrs.alpha = 3.0F;
    CHECK(asked_for(call) == 0);
  }
  SUBCASE("a bias: another epilogue") {
    call.bias = o.per_n.tensor();
    CHECK(asked_for(call) == 3);
  }
  SUBCASE("another bias, as well aligned") {
    call.bias = o.per_n.tensor();
    CHECK(asked_for(call) == 3);
    call.bias = copy.per_n.tensor();
    CHECK(asked_for(call) == 0);
  }
  SUBCASE("a bias before another activation, with Z or without, and in one call") {
    call.bias = o.per_n.tensor();
    call.attrs.act = ActKind::Tanh;
    CHECK(asked_for(call) == 3);
    call.attrs.act = ActKind::SiLU;
    CHECK(asked_for(call) == 0);
    call.attrs.act = ActKind::None;
    CHECK(asked_for(call) == 0);
    const Matrix z(kM, kN, 4);
    call.Z = z.tensor();
    CHECK(asked_for(call) == 0);
  }
  SUBCASE("other rows") {
    const Matrix a(3, kK, 1), y(3, kN, 4);
    call.A = a.tensor();
    call.Y = y.tensor();
    CHECK(asked_for(call) == 6);
  }
  SUBCASE("another depth") {
    const Matrix a(kM, 3, 4), b(3, kN, 3);
    call.A = a.tensor();
    call.B = b.tensor();
    CHECK(asked_for(call) == 6);
  }
  SUBCASE("other columns") {
    const Matrix y(kM, 3, 13), b(kK, 3, 12);  // in rows as far apart
    call.B = b.tensor();
    call.Y = y.tensor();
    CHECK(asked_for(call) == 6);
  }
  SUBCASE("a transpose of A, of the same numbers") {
    const Matrix a(kM, kM, 1), b(kM, kN, 3);
    call.A = a.tensor();
    call.B = b.tensor();
    CHECK(asked_for(call) == 6);
    call.attrs.trans_a = true;
    CHECK(asked_for(call) == 6);
  }
  SUBCASE("a transpose of B, of the same numbers") {
    const Matrix square(kK, kK, 3), y(kM, kK, 4);
    call.B = square.tensor();
    call.Y = y.tensor();
    CHECK(asked_for(call) == 6);
    call.attrs.trans_b = true;
    CHECK(asked_for(call) == 6);
  }
  SUBCASE("a leading dimension") {
    const Matrix a(kM, kK, 3), b(kK, kN, 4), y(kM, kN, 5);
    call.A = a.tensor();
    CHECK(asked_for(call) == 6);
    call.B = b.tensor();
    CHECK(asked_for(call) == 6);
    call.Y = y.tensor();
    CHECK(asked_for(call) == 6);
  }
  SUBCASE("an alignment") {
    const Matrix a(kM, kK, 1, 1), b(kK, kN, 3, 1), y(kM, kN, 4, 1);
    call.A = a.tensor();
    CHECK(asked_for(call) == 6);
    call.B = b.tensor();
    CHECK(asked_for(call) == 6);
    call.Y = y.tensor();
    CHECK(asked_for(call) == 6);
  }
  SUBCASE("a bias that is less aligned") {
    const Matrix shifted(1, kN, 0, 4);
    call.bias = o.per_n.tensor();
    CHECK(asked_for(call) == 3);
    call.bias = shifted.tensor();
    CHECK(asked_for(call) == 3);
  }
  SUBCASE("an addend: its leading dimension and alignment, but not whether it is read") {
    const Matrix wide(kM, kN, 7), shifted(kM, kN, 2, 1);
    call.attrs.act = ActKind::None;
    call.attrs.beta = 1.0F;
    call.C = call.Y;
    CHECK(asked_for(call) == 0);
    for (const ai::Tensor& c : {o.c.tensor(), wide.tensor(), shifted.tensor()}) {
      call.C = c;
      CHECK(asked_for(call) == 3);
    }
    const Matrix y(kM, kN, 9);
    call.Y = y.tensor();
    CHECK(asked_for(call) == 3);
  }
  SUBCASE("another backend") {
    const auto other = ai::kernels::make_backend(fake_device::api(), &fake_lt::load, 0);
    CHECK(lower(*other, call).queries == 6);
  }
}

TEST_CASE("a question that failed is asked again") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  const auto plan = ai::plan_forward(o.call());
  fake_lt::state().heuristic = CUBLAS_STATUS_INTERNAL_ERROR;
  CHECK_FALSE(backend->lower({&*plan, 1}).ok());
  fake_lt::state().heuristic = CUBLAS_STATUS_SUCCESS;
  CHECK(lower(*backend, o.call()).queries == 3);
}

TEST_CASE("algorithms that only show up under a middle limit are listed, and the fallback stays") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  fake_lt::state().algorithms = {{1, 32 << 20}, {2, 4096}, {3, 0}, {4, 0}};
  fake_lt::state().named_up_to = {{2, 1 << 20}, {4, 0}};
  GemmForward call = o.call();
  call.attrs.act = ActKind::Tanh;
  const Task task = lower(*backend, call);
  std::vector<std::pair<std::string, std::uint64_t>> got;
  for (const Candidate& candidate : task.candidates) {
    if (candidate.applicable()) got.emplace_back(candidate.name, call_of(candidate).algorithm);
  }
  CHECK(got == std::vector<std::pair<std::string, std::uint64_t>>{{"lt_epilogue/0", 1},
                                                                  {"lt_epilogue/1", 3},
                                                                  {"lt_epilogue/2", 2},
                                                                  {"lt_epilogue/3", 4},
                                                                  {"lt_epilogue/fallback", 3}});
}
