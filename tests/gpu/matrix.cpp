#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "ai/kernels/backend_factory.hpp"
#include "capture/cuda_capture.hpp"
#include "device_case.hpp"
#include "layer.hpp"
#include "roads.hpp"
#include "support/case_tables.hpp"
#include "support/check_case.hpp"

namespace {

using support::Case;

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

  ai::Result<std::vector<ai::Task>> lower_run(std::span<const ai::GemmPlan> run,
                                              const ai::Recall& recall) override {
    auto tasks = backend_->lower(run, recall);
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

/// Every candidate of every task of the case, or the first `limit`, one after the other. Returns
/// how many there were.
template <typename Check>
std::size_t check_each_candidate(Check&& check, std::size_t limit = SIZE_MAX) {
  std::size_t most = 1;
  for (std::size_t index = 0; index < std::min(most, limit); ++index) {
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

/// Both directions of each case on the host target, by the direct path on a stream of our own, and
/// as an untuned replay: each against the oracle, the last two bitwise the same.
void check_everywhere(const char* group, const std::vector<Case>& cases) {
  const gpu::OwnStream stream;
  const auto direct = [&stream](auto& data) { return gpu::direct_once(data, stream.get()); };
  support::check_on_every_road(
      group, cases,
      {{"host", support::HostExecutable()}, {"direct", direct}, {"replay", kUntuned, true}});
}
void check_everywhere(std::initializer_list<const char*> groups) {
  for (const char* group : groups) check_everywhere(group, support::cases_of(group));
}

TEST_CASE("every road equals the oracle for every activation, bias, transpose, Z and C") {
  check_everywhere({"cross"});
}

TEST_CASE("every road equals the oracle for every activation over every extent, tall and wide") {
  check_everywhere({"small extents", "paired extents", "long extents", "few rows", "skinny"});
  Case cube{1024, 1024, 1024, ai::BiasKind::PerN, ai::ActKind::GELU};
  cube.with_z = cube.with_c = true;
  check_everywhere("cube", {cube});
}

TEST_CASE("every road equals the oracle at every edge: padding, offsets, gradients wanted or not") {
  check_everywhere({"strides", "gradients"});
}

TEST_CASE("every road equals the oracle for every bias stride, alpha and beta") {
  check_everywhere({"bias strides", "scales"});
}

TEST_CASE("C13: every road takes any operand 4, 8 or 12 bytes past an aligned address") {
  check_everywhere({"alignment"});
}

TEST_CASE("C17 every road is bitwise exact on integers of 13 bits, in both operand orders") {
  check_everywhere({"exact"});
}

TEST_CASE("the direct path inside a caller's capture equals the oracle") {
  std::vector<Case> cases;
  for (const support::Shape& shape : {support::Shape{37, 29, 41}, {64, 128, 32}}) {
    for (const ai::ActKind act : support::kActs) {
      for (const ai::BiasKind bias : support::kBiasKinds) {
        for (const bool has_all : {false, true}) {
          Case c{shape.m, shape.n, shape.k, bias, act};
          c.with_z = has_all || act != ai::ActKind::None;
          c.with_c = has_all;
          c.trans_b = has_all;
          c.seed = static_cast<std::uint32_t>(8000 + cases.size());
          cases.push_back(c);
        }
      }
    }
  }
  const auto captured = [](auto& data) { return gpu::run(gpu::Road::CallersCapture, data); };
  support::check_on_every_road("in a caller's capture", cases, {{"direct", captured}});
}

TEST_CASE("C12 every candidate is bitwise exact on integers of 13 bits") {
  std::size_t most = 0;
  for (const Case& c :
       support::exact_cases({{37, 29, 41}, {64, 128, 256}, {1, 256, 64}, {5, 20, 235}})) {
    most =
        std::max(most, check_each_candidate([&](auto&& run) { support::check_forward(c, run); }));
    most =
        std::max(most, check_each_candidate([&](auto&& run) { support::check_backward(c, run); }));
  }
  CHECK(most > 4);  // else the cases do not reach the variants they are for
}

TEST_CASE("every candidate of a plain layer and its gradients equals the oracle") {
  for (const ai::BiasKind bias : support::kBiasKinds) {
    for (const ai::ActKind act : {ai::ActKind::None, ai::ActKind::ReLU}) {
      Case c{48, 64, 100, bias, act};
      check_each_candidate([&](auto&& run) { support::check_forward(c, run); });
      c.with_z = act != ai::ActKind::None;
      check_each_candidate([&](auto&& run) { support::check_backward(c, run); });
    }
  }
}

TEST_CASE("every candidate of the gradients of few rows equals the oracle") {
  for (const Case& c : support::few_row_cases()) {
    if (c.bias != ai::BiasKind::PerN || !support::asks<support::BackwardData>(c)) continue;
    Case gradients = c;
    gradients.ga = support::Wanted::No;  // gB and gBias need all of gZ
    check_each_candidate([&](auto&& run) { support::check_backward(gradients, run); });
  }
}

TEST_CASE(
    "the first candidates of few rows or columns, all fused ones among them, equal the oracle") {
  constexpr std::size_t kFirst = 4;
  const std::vector<Case> cases = support::skinny_cases();
  for (std::size_t i = 0; i < cases.size(); i += 3) {  // for the time it takes
    const Case& c = cases[i];
    check_each_candidate([&](auto&& run) { support::check_forward(c, run); }, kFirst);
    if (!support::asks<support::BackwardData>(c)) continue;
    check_each_candidate([&](auto&& run) { support::check_backward(c, run); }, kFirst);
  }
}

TEST_CASE("a tuned replay equals the oracle") {
  for (const ai::BiasKind bias : support::kBiasKinds) {
    for (const ai::ActKind act : support::kActs) {
      Case c{33, 65, 127, bias, act};
      support::check_forward(c, kTuned);
      c.with_z = act != ai::ActKind::None;
      support::check_backward(c, kTuned);
    }
  }
}

}  // namespace
