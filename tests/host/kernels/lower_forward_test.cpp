#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "forward_support.hpp"

using namespace forward_test;
using ai::StatusCode;
using Names = std::vector<std::string>;

TEST_CASE("a plain product is fused, each answer is one candidate, and the fallback stands last") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  const Task task = lower(*backend, o.call());
  CHECK(task.name == "forward Y[9,12] K=10");
  CHECK(fake_device::names(task) == Names{"fused", "lt_bias", "epilogue", "lt_fused/0",
                                          "lt_fused/1", "lt_fused/2", "lt_epilogue/fallback"});
  CHECK(contains(reason_of(task, "epilogue"), "computes no product"));
  CHECK(task.candidates[3].trusted);
}

TEST_CASE(
    "candidates of ReLU in cuBLASLt are not trusted, those before the epilogue kernel are [C4]") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  GemmForward call = o.call();
  call.attrs.act = ActKind::ReLU;
  const Task task = lower(*backend, call);
  CHECK(fake_device::names(task) ==
        Names{"fused", "lt_bias", "epilogue", "lt_fused/0", "lt_fused/1", "lt_fused/2",
              "lt_epilogue/0", "lt_epilogue/1", "lt_epilogue/2", "lt_epilogue/fallback"});
  for (const ai::Candidate& candidate : task.candidates) {
    CHECK(candidate.trusted == !candidate.name.starts_with("lt_fused"));
  }
}

TEST_CASE("algorithms that only show up without scratch are asked for, and none is listed twice") {
  const auto backend = fake_device::fresh_backend();
  fake_lt::state().algorithms = {{7, 64}, {7, 64}, {8, 0}};
  const Operands o;
  const Task task = lower(*backend, o.call());
  CHECK(fake_device::names(task) ==
        Names{"fused", "lt_bias", "epilogue", "lt_fused/0", "lt_fused/1", "lt_epilogue/fallback"});
  REQUIRE(fake_lt::state().questions.size() == 3);
  CHECK(fake_lt::state().questions[0].workspace == std::uint64_t{32} << 20);
  CHECK(fake_lt::state().questions[1].workspace == std::uint64_t{1} << 20);
  CHECK(fake_lt::state().questions[2].workspace == 0);
}

TEST_CASE("a lone answer is its own fallback") {
  const auto backend = fake_device::fresh_backend();
  fake_lt::state().algorithms = {{7, 64}};
  const Operands o;
  GemmForward call = o.call();
  call.attrs.act = ActKind::Tanh;
  const Task task = lower(*backend, call);
  CHECK(fake_device::names(task) ==
        Names{"fused", "lt_fused", "lt_bias", "epilogue", "lt_epilogue/fallback"});
}

TEST_CASE(
    "an epilogue without algorithms is left out, a product without any is Unsupported [C12]") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  GemmForward call = o.call();
  call.bias = o.per_n.tensor();
  SUBCASE("the heuristic knows no epilogues") {
    fake_lt::state().knows_epilogues = false;
    const Task task = lower(*backend, call);
    CHECK(contains(reason_of(task, "lt_fused"), "no algorithm"));
    CHECK(fake_device::find(task, "lt_epilogue/0") != nullptr);
  }
  SUBCASE("it knows nothing") {
    SUBCASE("and says success") {
      fake_lt::state().algorithms.clear();
    }
    SUBCASE("and says not supported") {
      fake_lt::state().heuristic = CUBLAS_STATUS_NOT_SUPPORTED;
    }
    SUBCASE("and says invalid value [C9]") {
      fake_lt::state().heuristic = CUBLAS_STATUS_INVALID_VALUE;
    }
    const ai::Result<ai::GemmPlan> plan = ai::plan_forward(call);
    REQUIRE(plan.ok());
    const auto tasks = backend->lower({&*plan, 1});
    CHECK(tasks.status().code() == StatusCode::Unsupported);
    CHECK(contains(tasks.status().message(), "[9,10] [10,12]"));
  }
}

TEST_CASE("the heuristic is told how operands are aligned [C13]") {
  const auto backend = fake_device::fresh_backend();
  const Matrix a(kM, kK, 0, 1);
  const Matrix b(kK, kN, 0, 2);
  const Matrix c(kM, kN, 0, 4);
  const Matrix y(kM, kN, 0, 16);
  GemmForward call = {.A = a.tensor(), .B = b.tensor(), .C = c.tensor(), .Y = y.tensor()};
  SUBCASE("with C") {
    call.attrs.beta = 1.0F;
    (void)lower(*backend, call);
    CHECK(fake_lt::state().questions[0].alignment[2] == 16);
  }
  SUBCASE("without C, which is Y to cuBLASLt then") {
    (void)lower(*backend, call);
    CHECK(fake_lt::state().questions[0].alignment[2] == 64);
  }
  CHECK(fake_lt::state().questions[0].alignment[0] == 8);  // its A is B
  CHECK(fake_lt::state().questions[0].alignment[1] == 4);
  CHECK(fake_lt::state().questions[0].alignment[3] == 64);
}

TEST_CASE("K = 0 and alpha = 0 take the epilogue kernel alone, and no cuBLASLt is loaded [C1]") {
  const auto backend = fake_device::fresh_backend();
  Operands o;
  const Matrix no_a(kM, 0);
  const Matrix no_b(0, kN);
  GemmForward call = o.call();
  SUBCASE("K = 0") {
    call.A = no_a.tensor();
    call.B = no_b.tensor();
  }
  SUBCASE("alpha = 0, with NaN in A") {
    call.attrs.alpha = 0.0F;
    o.a.fill(std::nanf(""));
  }
  call.attrs.act = ActKind::ReLU;
  call.attrs.beta = 2.0F;
  call.C = o.c.tensor();
  call.bias = o.per_n.tensor();
  const Task task = lower(*backend, call);
  CHECK(fake_device::names(task) ==
        Names{"fused", "lt_fused", "lt_bias", "lt_epilogue", "epilogue"});
  CHECK(contains(reason_of(task, "lt_fused"), "no product"));
  CHECK(fake_lt::state().loads == 0);
  REQUIRE(task.candidates.back().steps.size() == 1);
  CHECK(task.candidates.back().steps[0]->reads().size() == 2);  // C and bias

  REQUIRE(fake_device::Runner().run(task.candidates.back()).ok());
  for (std::int64_t m = 0; m < kM; ++m) {
    for (std::int64_t n = 0; n < kN; ++n) {
      CHECK(o.y.at(m, n) == std::max(0.0F, 2 * o.c.at(m, n) + o.per_n.at(0, n)));
    }
  }
}

TEST_CASE("no rows or no columns take no step and no cuBLASLt [C2]") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  SUBCASE("M = 0") {
    const Matrix a(0, kK);
    const Matrix y(0, kN);
    const Task task = lower(*backend, {.A = a.tensor(), .B = o.b.tensor(), .Y = y.tensor()});
    CHECK(task.candidates.size() == 1);
    CHECK(task.candidates[0].steps.empty());
  }
  SUBCASE("N = 0") {
    const Matrix b(kK, 0);
    const Matrix y(kM, 0);
    const Task task = lower(*backend, {.A = o.a.tensor(), .B = b.tensor(), .Y = y.tensor()});
    CHECK(task.candidates.size() == 1);
    CHECK(task.candidates[0].steps.empty());
  }
  CHECK(fake_lt::state().loads == 0);
}

TEST_CASE("what keeps cuBLASLt from being used is reported") {
  const Operands o;
  const ai::Result<ai::GemmPlan> plan = ai::plan_forward(o.call());
  REQUIRE(plan.ok());
  SUBCASE("it cannot be loaded [E3]") {
    const auto broken = ai::kernels::make_backend(
        fake_device::api(),
        [](const ai::cuda::Api&, int) -> ai::Result<std::shared_ptr<const ai::kernels::LtContext>> {
          return ai::Status(StatusCode::Unsupported, "libcublasLt.so.13 is nowhere");
        },
        0);
    CHECK(broken->lower({&*plan, 1}).status().message() == "libcublasLt.so.13 is nowhere");
  }
  SUBCASE("it has no memory for a handle") {
    const auto backend = fake_device::fresh_backend();
    fake_lt::state().create = CUBLAS_STATUS_ALLOC_FAILED;
    const ai::Status status = backend->lower({&*plan, 1}).status();
    CHECK(status.code() == StatusCode::OutOfMemory);
    CHECK(contains(status.message(), "cublasLtCreate"));
  }
}

TEST_CASE("a plan of another device is refused, and the caller's device is restored [B7]") {
  const auto backend = fake_device::fresh_backend(1);
  Operands o;
  GemmForward call = o.call();
  const ai::Result<ai::GemmPlan> elsewhere = ai::plan_forward(call);
  REQUIRE(elsewhere.ok());
  CHECK(backend->lower({&*elsewhere, 1}).status().code() == StatusCode::DeviceMismatch);
  for (ai::Tensor* tensor : {&call.A, &call.B, &call.Y}) tensor->device_index = 1;
  fake_device::state().devices_set.clear();
  (void)lower(*backend, call);
  CHECK(fake_device::state().devices_set == std::vector<int>{1, 0});
  CHECK(fake_device::state().mode == cudaStreamCaptureModeThreadLocal);
}

TEST_CASE("descriptors live as long as the last step that uses them, and no longer") {
  auto backend = fake_device::fresh_backend();
  Operands o;
  {
    const Task task = lower(*backend, o.call());
    (void)lower(*backend, o.call());
    backend.reset();
    CHECK(fake_lt::state().objects > 0);
    CHECK(fake_device::Runner().run(task.candidates.back()).ok());
  }
  CHECK(fake_lt::state().objects == 0);
}
