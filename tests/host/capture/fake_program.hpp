#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ai/backend.hpp"
#include "ai/capture.hpp"
#include "ai/program.hpp"
#include "capture/cuda_capture.hpp"
#include "capture/reclaim.hpp"
#include "support/fake_api.hpp"

namespace ai::test {

/// A step whose work is a function of the test's.
class TestStep final : public Step {
 public:
  using Body = std::function<Status(const AddressMap&, Stream)>;
  TestStep(std::string name, std::vector<MemoryRange> reads, std::vector<MemoryRange> writes,
           Body body, std::vector<MemoryRange> state = {})
      : Step(std::move(name), std::move(reads), std::move(writes), std::move(state)),
        body_(std::move(body)) {}

  Status prepare() override {
    ++prepared;
    return prepare_status;
  }
  Status enqueue(const AddressMap& addresses, Stream stream) override {
    REQUIRE_MESSAGE(prepared > 0, "enqueued without prepare: ", name());
    ++enqueued;
    return body_(addresses, stream);
  }

  int prepared = 0;
  int enqueued = 0;
  Status prepare_status = {};

 private:
  Body body_;
};

/// How a FakeGemm goes wrong.
enum class Flaw {
  None,
  WrongValue,   ///< the last one
  WrongMiddle,  ///< a sixteenth of the rows, from the middle on
  LosesNaN,
  LosesInf,
  FailsToEnqueue,
  FailsToPrepare
};

/// Y = relu(A B) as one kernel of the fake, that takes `takes_us` and counts its `runs`.
inline std::shared_ptr<TestStep> gemm_step(FakeCuda& fake, const GemmPlan& plan, std::string name,
                                           double takes_us, Flaw flaw = Flaw::None,
                                           int* runs = nullptr) {
  const GemmForward call = plan.forward();
  const auto body = [&fake, call, takes_us, flaw, runs](const AddressMap& addresses,
                                                        Stream stream) -> Status {
    if (flaw == Flaw::FailsToEnqueue) return {StatusCode::CudaError, "no such kernel"};
    const auto* const a = static_cast<const float*>(addresses(call.A).data);
    const auto* const b = static_cast<const float*>(addresses(call.B).data);
    auto* const y = static_cast<float*>(addresses(call.Y).data);
    const auto kernel = [=] {
      if (runs != nullptr) ++*runs;
      const std::int64_t m = call.Y.desc.shape[0];
      const std::int64_t n = call.Y.desc.shape[1];
      const std::int64_t k = call.A.desc.shape[1];
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l) {
            sum += static_cast<double>(a[i * call.A.desc.stride[0] + l]) *
                   b[l * call.B.desc.stride[0] + j];
          }
          if (flaw == Flaw::LosesNaN && std::isnan(sum)) sum = 0;
          if (flaw == Flaw::LosesInf && std::isinf(sum)) sum = std::numeric_limits<float>::max();
          if (flaw == Flaw::WrongValue && i == m - 1 && j == n - 1) sum += 1;
          if (flaw == Flaw::WrongMiddle && i >= m / 2 && i < m / 2 + m / 16) sum += 1;
          y[i * call.Y.desc.stride[0] + j] = static_cast<float>(sum < 0 ? 0 : sum);
        }
      }
    };
    if (fake.work(stream, cudaGraphNodeTypeKernel, takes_us, kernel) != cudaSuccess) {
      return {StatusCode::CudaError, "the kernel could not be launched"};
    }
    return {};
  };
  auto step =
      std::make_shared<TestStep>(std::move(name), std::vector{range_of(call.A), range_of(call.B)},
                                 std::vector{range_of(call.Y)}, body);
  if (flaw == Flaw::FailsToPrepare) {
    step->prepare_status = Status(StatusCode::Unsupported, "no such module");
  }
  return step;
}

inline Candidate candidate(std::string name, std::shared_ptr<Step> step, bool trusted = true) {
  return {std::move(name), {}, trusted, {std::move(step)}};
}

/// Whatever tasks the test wants.
class FakeBackend final : public Backend {
 public:
  using Lower = std::function<std::vector<Task>(const GemmPlan&)>;
  explicit FakeBackend(Lower lower) : lower_(std::move(lower)) {}
  Result<std::vector<Task>> lower_run(std::span<const GemmPlan> run,
                                      const Recall& /*recall*/) override {
    return lower_(run.front());
  }

 private:
  Lower lower_;
};

/// One forward call Y[M,N] = A[M,K] B[K,N] over operands of the fake.
struct Layer {
  Layer(FakeCuda& fake, std::int64_t m, std::int64_t n, std::int64_t k) {
    const auto matrix = [&fake](std::int64_t rows, std::int64_t cols) {
      return make_tensor_2d(fake.operand(static_cast<std::size_t>(rows * cols) * sizeof(float)),
                            {rows, cols});
    };
    call.A = matrix(m, k);
    call.B = matrix(k, n);
    call.Y = matrix(m, n);
    fill(call.A, 1.0F);
    fill(call.B, 2.0F);
    fill(call.Y, -1.0F);
  }
  static void fill(const Tensor& tensor, float value) {
    auto* const data = static_cast<float*>(tensor.data);
    const std::int64_t count = tensor.desc.shape[0] * tensor.desc.shape[1];
    for (std::int64_t i = 0; i < count; ++i) data[i] = value;
  }
  [[nodiscard]] GemmPlan plan() const {
    const Result<GemmPlan> made = plan_forward(call);
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    return *made;
  }
  [[nodiscard]] float y(std::int64_t i = 0) const {
    return static_cast<const float*>(call.Y.data)[i];
  }
  GemmForward call;
};

inline detail::TunerSettings settings(const FakeCuda& fake, bool measure, double budget_s = 10.0) {
  detail::TunerSettings tuner;
  tuner.measure = measure;
  tuner.budget_s = budget_s;
  tuner.warm_s = 100e-6;
  tuner.now = [&fake] { return fake.seconds(); };
  return tuner;
}

inline Result<Executable> capture_fake(FakeCuda& fake, Backend& backend, const Program& program,
                                       bool measure = false, const CaptureOptions& options = {}) {
  return detail::capture_with(FakeCuda::api(), backend, program, options, settings(fake, measure));
}

/// Frees what destroyed executables have left behind, and asks for complaints.
inline std::string settled(FakeCuda& fake) {
  detail::reclaim(FakeCuda::api());
  std::string all;
  for (const std::string& complaint : fake.complaints()) all += complaint + "; ";
  return all;
}

}  // namespace ai::test
