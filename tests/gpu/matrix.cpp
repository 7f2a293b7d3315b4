#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "ai/kernels/backend_factory.hpp"
#include "capture/cuda_capture.hpp"
#include "device_case.hpp"
#include "support/check_case.hpp"

namespace {

using support::Case;

const std::vector<support::Shape> kShapes = {
    {37, 29, 41}, {64, 48, 128}, {1, 255, 65}, {130, 8, 127}};

ai::Result<ai::Executable> capture_as(const ai::Program& program, ai::Tuning tuning) {
  return ai::capture(program, {.tuning = tuning, .tuning_budget_s = 0.2});
}
const auto kUntuned = [](auto& data) {
  return gpu::replay_once(
      data, [](const ai::Program& program) { return capture_as(program, ai::Tuning::Off); });
};
const auto kTuned = [](auto& data) {
  return gpu::replay_once(
      data, [](const ai::Program& program) { return capture_as(program, ai::Tuning::Measure); });
};

/// The CUDA backend with all but one candidate of each task taken away: the one at `index`, or the
/// last where there are fewer. Counts what it was asked for.
class OneCandidate final : public ai::Backend {
 public:
  explicit OneCandidate(std::size_t index)
      : backend_(ai::kernels::make_cuda_backend(0)), index_(index) {}

  ai::Result<std::vector<ai::Task>> lower(std::span<const ai::GemmPlan> run) override {
    auto tasks = backend_->lower(run);
    if (!tasks.ok()) return tasks;
    for (ai::Task& task : *tasks) {
      std::erase_if(task.candidates,
                    [](const ai::Candidate& candidate) { return !candidate.applicable(); });
      most_ = std::max(most_, task.candidates.size());
      ai::Candidate kept = task.candidates[std::min(index_, task.candidates.size() - 1)];
      kept.trusted = true;
      task.candidates = {std::move(kept)};
    }
    return tasks;
  }
  /// The most candidates that a task had.
  [[nodiscard]] std::size_t most() const { return most_; }

 private:
  std::unique_ptr<ai::Backend> backend_;
  std::size_t index_;
  std::size_t most_ = 0;
};

/// Every candidate of every task of the case, one after the other. Returns how many there were.
template <typename Check>
std::size_t check_each_candidate(Check&& check) {
  std::size_t most = 1;
  for (std::size_t index = 0; index < most; ++index) {
    CAPTURE(index);
    check([&](auto& data) {
      OneCandidate backend(index);
      const ai::Status status = gpu::replay_once(data, [&](const ai::Program& program) {
        const ai::CaptureOptions options{.tuning = ai::Tuning::Off};
        return ai::detail::capture_with(ai::cuda::runtime_api(), backend, program, options,
                                        ai::detail::tuner_settings(options));
      });
      most = std::max(most, backend.most());
      return status;
    });
  }
  return most;
}

TEST_CASE("forward equals the oracle for every activation, bias, transpose, Z and C") {
  const std::vector<Case> cases = support::full_cross(kShapes);
  CHECK(cases.size() == 4 * 9 * 4 * 16);
  for (const Case& c : cases) support::check_forward(c, kUntuned, support::kWithin);
}

TEST_CASE("backward equals the oracle for every activation, bias, transpose, Z and C") {
  for (const Case& c : support::full_cross(kShapes)) {
    support::check_backward(c, kUntuned, support::kWithin);
  }
}

TEST_CASE(
    "replay equals the oracle at every edge: empty extents, padding, offsets, modes, scales") {
  for (const Case& c : support::edge_cases()) {
    support::check_forward(c, kUntuned, support::kWithin);
    support::check_backward(c, kUntuned, support::kWithin);
  }
}

TEST_CASE("C17 replay is bitwise exact on integers of 13 bits, in both operand orders") {
  for (const Case& c : support::exact_cases({{37, 29, 41}, {64, 128, 256}, {1, 33, 257}})) {
    support::check_forward(c, kUntuned, support::kExact);
    support::check_backward(c, kUntuned, support::kExact);
  }
}

TEST_CASE("C12 every candidate is bitwise exact on integers of 13 bits") {
  std::size_t most = 0;
  for (const Case& c : support::exact_cases({{37, 29, 41}, {64, 128, 256}, {1, 256, 64}})) {
    most = std::max(most, check_each_candidate([&](auto&& run) {
                      support::check_forward(c, run, support::kExact);
                    }));
    most = std::max(most, check_each_candidate([&](auto&& run) {
                      support::check_backward(c, run, support::kExact);
                    }));
  }
  CHECK(most > 4);  // else the cases do not reach the variants they are for
}

TEST_CASE("every candidate of a plain layer and its gradients equals the oracle") {
  for (const ai::BiasKind bias : support::kBiasKinds) {
    for (const ai::ActKind act : {ai::ActKind::None, ai::ActKind::ReLU}) {
      Case c{48, 64, 100, bias, act};
      check_each_candidate([&](auto&& run) { support::check_forward(c, run, support::kWithin); });
      c.with_z = act != ai::ActKind::None;
      check_each_candidate([&](auto&& run) { support::check_backward(c, run, support::kWithin); });
    }
  }
}

TEST_CASE("a tuned replay equals the oracle") {
  for (const ai::BiasKind bias : support::kBiasKinds) {
    for (const ai::ActKind act : support::kActs) {
      Case c{33, 65, 127, bias, act};
      support::check_forward(c, kTuned, support::kWithin);
      c.with_z = act != ai::ActKind::None;
      support::check_backward(c, kTuned, support::kWithin);
    }
  }
}

}  // namespace
