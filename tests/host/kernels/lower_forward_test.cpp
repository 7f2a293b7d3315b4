#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "fake_device.hpp"
#include "matrix.hpp"
#include "support/oracle.hpp"

using ai::ActKind;
using ai::GemmForward;
using ai::StatusCode;
using ai::Task;
using Names = std::vector<std::string>;

namespace {

constexpr std::int64_t kM = 5;
constexpr std::int64_t kN = 12;
constexpr std::int64_t kK = 6;

/// The one task of a call that must be planned and lowered without an error.
Task lower(ai::Backend& backend, const GemmForward& call) {
  const ai::Result<ai::GemmPlan> plan = ai::plan_forward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  ai::Result<std::vector<Task>> tasks = backend.lower({&*plan, 1});
  REQUIRE_MESSAGE(tasks.ok(), tasks.status().to_string());
  REQUIRE(tasks->size() == 1);
  const ai::Candidate& last = tasks->front().candidates.back();
  CHECK(last.applicable());
  CHECK(last.trusted);
  return tasks->front();
}

struct Operands {
  Matrix a{kM, kK, 1};
  Matrix b{kK, kN, 3, 0, 2};
  Matrix c{kM, kN, 2, 0, 3};
  Matrix y{kM, kN, 4, 0, 4};
  Matrix z{kM, kN, 8, 0, 5};
  Matrix per_n{1, kN, 0, 0, 6};
  Matrix per_m{kM, 1, 2, 0, 7};
  Matrix scalar{1, 1, 0, 0, 8};

  [[nodiscard]] GemmForward call() const {
    return {.A = a.tensor(), .B = b.tensor(), .Y = y.tensor()};
  }
};

std::string reason_of(const Task& task, const char* name) {
  const ai::Candidate* candidate = fake_device::find(task, name);
  REQUIRE(candidate != nullptr);
  CHECK(candidate->steps.empty());
  return candidate->reason;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a plain product is fused, each answer is one candidate, and the fallback stands last") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  const Task task = lower(*backend, o.call());
  CHECK(task.name == "forward Y[5,12] K=6");
  CHECK(fake_device::names(task) ==
        Names{"epilogue", "lt_fused/0", "lt_fused/1", "lt_fused/2", "lt_epilogue/fallback"});
  CHECK(contains(reason_of(task, "epilogue"), "computes no product"));
  CHECK(task.candidates[1].trusted);
}

TEST_CASE(
    "candidates of ReLU in cuBLASLt are not trusted, those before the epilogue kernel are [C4]") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  GemmForward call = o.call();
  call.attrs.act = ActKind::ReLU;
  const Task task = lower(*backend, call);
  CHECK(fake_device::names(task) == Names{"epilogue", "lt_fused/0", "lt_fused/1", "lt_fused/2",
                                          "lt_epilogue/0", "lt_epilogue/1", "lt_epilogue/2",
                                          "lt_epilogue/fallback"});
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
        Names{"epilogue", "lt_fused/0", "lt_fused/1", "lt_epilogue/fallback"});
  REQUIRE(fake_lt::state().questions.size() == 4);
  CHECK(fake_lt::state().questions[0].workspace == std::uint64_t{32} << 20);
  CHECK(fake_lt::state().questions[1].workspace == 0);
}

TEST_CASE("a lone answer is its own fallback") {
  const auto backend = fake_device::fresh_backend();
  fake_lt::state().algorithms = {{7, 64}};
  const Operands o;
  GemmForward call = o.call();
  call.attrs.act = ActKind::Tanh;
  const Task task = lower(*backend, call);
  CHECK(fake_device::names(task) == Names{"lt_fused", "epilogue", "lt_epilogue/fallback"});
}

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

TEST_CASE("a bias of one element is fused where there is one column") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  const Matrix b(kK, 1);
  const Matrix y(kM, 1);
  const Task task = lower(
      *backend, {.A = o.a.tensor(), .B = b.tensor(), .bias = o.scalar.tensor(), .Y = y.tensor()});
  CHECK(fake_device::find(task, "lt_fused/0") != nullptr);
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
    CHECK(contains(tasks.status().message(), "[5,6] [6,12]"));
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
  CHECK(fake_device::names(task) == Names{"lt_fused", "lt_epilogue", "epilogue"});
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

TEST_CASE("every candidate computes the same exact numbers over all operands and modes") {
  enum class Addend { None, Apart, InPlace };
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const ActKind act : {ActKind::None, ActKind::ReLU, ActKind::LeakyReLU}) {
        for (const int bias : {0, 1, 2, 3}) {
          for (const Addend addend : {Addend::None, Addend::Apart, Addend::InPlace}) {
            for (const bool with_z : {false, true}) {
              for (const std::int64_t n : {std::int64_t{1}, std::int64_t{7}, kN}) {
                CAPTURE(trans_a);
                CAPTURE(trans_b);
                CAPTURE(act);
                CAPTURE(bias);
                CAPTURE(static_cast<int>(addend));
                CAPTURE(with_z);
                CAPTURE(n);
                const auto backend = fake_device::fresh_backend();
                const Matrix a = trans_a ? Matrix(kK, kM, 1) : Matrix(kM, kK, 2);
                const Matrix b = trans_b ? Matrix(n, kK, 1, 0, 2) : Matrix(kK, n, 3, 0, 2);
                const Matrix c(kM, n, 2, 0, 3);
                Matrix y(kM, n, 4);
                Matrix z(kM, n, 8);
                const Matrix biases[] = {Matrix(0, 0), Matrix(1, 1, 0, 0, 4), Matrix(1, n, 0, 0, 4),
                                         Matrix(kM, 1, 2, 0, 4)};
                GemmForward call = {.A = a.tensor(), .B = b.tensor(), .Y = y.tensor()};
                if (addend == Addend::Apart) call.C = c.tensor();
                if (addend == Addend::InPlace) call.C = y.tensor();
                if (bias > 0) call.bias = biases[bias].tensor();
                if (with_z) call.Z = z.tensor();
                call.attrs.trans_a = trans_a;
                call.attrs.trans_b = trans_b;
                call.attrs.act = act;
                call.attrs.leaky_slope = 0.5F;
                call.attrs.alpha = 2.0F;
                call.attrs.beta = addend == Addend::None ? 0.0F : 3.0F;

                const Task task = lower(*backend, call);
                for (const ai::Candidate& candidate : task.candidates) {
                  if (!candidate.applicable()) continue;
                  CAPTURE(candidate.name);
                  y.fill(std::nanf(""));
                  if (addend == Addend::InPlace) y.fill(-3.0F);
                  z.fill(std::nanf(""));
                  const oracle::Forward expected = oracle::forward(call);
                  fake_device::Runner runner;
                  REQUIRE(runner.run(candidate).ok());
                  bool right = y.padding_is_untouched() && z.padding_is_untouched();
                  for (std::int64_t m = 0; m < kM; ++m) {
                    for (std::int64_t i = 0; i < n; ++i) {
                      const auto at = static_cast<std::size_t>(m * n + i);
                      right = right && y.at(m, i) == static_cast<float>(expected.y[at].value);
                      right = right &&
                              (!with_z || z.at(m, i) == static_cast<float>(expected.z[at].value));
                    }
                  }
                  CHECK(right);
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("steps book exactly the bytes they read and write") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  GemmForward call = o.call();
  call.bias = o.per_n.tensor();
  call.attrs.act = ActKind::ReLU;

  const auto same = [](const ai::MemoryRange& range, const Matrix& matrix) {
    const ai::MemoryRange wanted = ai::range_of(matrix.tensor());
    return range.begin == wanted.begin && range.rows == wanted.rows &&
           range.width == wanted.width && (range.rows == 1 || range.pitch == wanted.pitch);
  };
  SUBCASE("fused, without and with scratch of its own") {
    const Task task = lower(*backend, call);
    const ai::Step& plain = *fake_device::find(task, "lt_fused/0")->steps.at(0);
    REQUIRE(plain.reads().size() == 3);
    CHECK(same(plain.reads()[0], o.a));
    CHECK(same(plain.reads()[1], o.b));
    CHECK(same(plain.reads()[2], o.per_n));
    REQUIRE(plain.writes().size() == 1);
    CHECK(same(plain.writes()[0], o.y));

    const ai::Step& scratch = *fake_device::find(task, "lt_fused/1")->steps.at(0);
    REQUIRE(scratch.writes().size() == 2);
    const ai::MemoryRange& booked = scratch.writes()[1];
    CHECK(ai::symbolic::is_symbolic(reinterpret_cast<const void*>(booked.begin)));
    CHECK(booked.end() - booked.begin == 1 << 20);
    const ai::Step& other = *fake_device::find(task, "lt_epilogue/1")->steps.at(0);
    REQUIRE(other.writes().size() == 2);
    CHECK_FALSE(ai::overlaps(booked, other.writes()[1]));
  }
  SUBCASE("with the epilogue kernel, Z and C") {
    call.Z = o.z.tensor();
    call.C = o.c.tensor();
    call.attrs.beta = 1.0F;
    const Task task = lower(*backend, call);
    const ai::Candidate& candidate = *fake_device::find(task, "lt_epilogue/0");
    REQUIRE(candidate.steps.size() == 2);
    CHECK(candidate.steps[0]->reads().size() == 2);  // A and B: C is the epilogue's
    CHECK(same(candidate.steps[0]->writes()[0], o.z));
    REQUIRE(candidate.steps[1]->reads().size() == 3);
    CHECK(same(candidate.steps[1]->reads()[0], o.z));
    CHECK(same(candidate.steps[1]->reads()[1], o.c));
    CHECK(same(candidate.steps[1]->reads()[2], o.per_n));
    REQUIRE(candidate.steps[1]->writes().size() == 2);
    CHECK(ai::depends_on(*candidate.steps[1], *candidate.steps[0]));
  }
  SUBCASE("beta = 0 reads no C [C3]") {
    call.C = o.c.tensor();
    const Task task = lower(*backend, call);
    for (const ai::Candidate& candidate : task.candidates) {
      for (const auto& step : candidate.steps) {
        for (const ai::MemoryRange& range : step->reads()) CHECK_FALSE(same(range, o.c));
      }
    }
  }
}

TEST_CASE("a product that takes in C == Y does so before the epilogue kernel") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  GemmForward call = o.call();
  call.C = o.y.tensor();
  call.attrs.beta = 1.0F;
  call.attrs.act = ActKind::Tanh;
  const auto reads = [&](std::size_t step) {
    const Task task = lower(*backend, call);
    return fake_device::find(task, "lt_epilogue/0")->steps.at(step)->reads().size();
  };
  SUBCASE("without Z: the product overwrites Y") {
    CHECK(reads(0) == 3);
    CHECK(reads(1) == 1);
  }
  SUBCASE("with Z: the product leaves Y alone") {
    call.Z = o.z.tensor();
    CHECK(reads(0) == 2);
    CHECK(reads(1) == 2);
  }
}

TEST_CASE("what keeps cuBLASLt from being used is reported") {
  const Operands o;
  const ai::Result<ai::GemmPlan> plan = ai::plan_forward(o.call());
  REQUIRE(plan.ok());
  SUBCASE("it cannot be loaded [E3]") {
    const auto broken = ai::kernels::make_backend(
        fake_device::api(),
        []() noexcept -> ai::Result<const ai::cuda::LtApi*> {
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
  (void)lower(*backend, call);
  CHECK(fake_device::state().device == 0);
  CHECK(fake_device::state().mode == cudaStreamCaptureModeThreadLocal);
}

TEST_CASE("handle and descriptors live as long as the last step, and no longer") {
  auto backend = fake_device::fresh_backend();
  Operands o;
  {
    const Task task = lower(*backend, o.call());
    (void)lower(*backend, o.call());
    CHECK(fake_lt::state().handles == 1);
    backend.reset();
    CHECK(fake_lt::state().handles == 1);
    CHECK(fake_device::Runner().run(task.candidates.back()).ok());
  }
  CHECK(fake_lt::state().handles == 0);
  CHECK(fake_lt::state().objects == 0);
}
