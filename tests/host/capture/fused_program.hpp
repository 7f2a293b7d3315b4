#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tuned_program.hpp"
#include "tuning_support.hpp"

namespace ai::test {

/// relu(A B) of several plans in turn as one kernel of the fake. Nothing is written that the run
/// does not keep.
inline std::shared_ptr<TestStep> fused_step(FakeCuda& fake, const PlanRun& run, const Way& way,
                                            float* largest) {
  std::vector<GemmForward> calls;
  for (const GemmPlan& plan : run.plans) calls.push_back(plan.forward());
  const std::vector<bool> keeps = run.keeps_y;
  const Flaw flaw = way.flaw;
  std::vector<MemoryRange> reads = {range_of(calls.front().A)};
  std::vector<MemoryRange> writes;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    reads.push_back(range_of(calls[i].B));
    if (keeps[i]) writes.push_back(range_of(calls[i].Y));
  }
  const auto body = [&fake, calls, keeps, flaw, largest, takes_us = way.takes_us](
                        const AddressMap& addresses, Stream stream) -> Status {
    std::vector<const float*> weights;
    std::vector<float*> results;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      weights.push_back(static_cast<const float*>(addresses(calls[i].B).data));
      results.push_back(keeps[i] ? static_cast<float*>(addresses(calls[i].Y).data) : nullptr);
    }
    const auto* const x = static_cast<const float*>(addresses(calls.front().A).data);
    const auto kernel = [=] {
      std::vector<float> now;
      const std::int64_t m = calls.front().A.desc.shape[0];
      for (std::int64_t i = 0; i < m; ++i) {
        const std::int64_t width = calls.front().A.desc.shape[1];
        const float* const row = x + i * calls.front().A.desc.stride[0];
        now.insert(now.end(), row, row + width);
      }
      for (std::size_t l = 0; l < calls.size(); ++l) {
        const std::int64_t k = calls[l].B.desc.shape[0];
        const std::int64_t n = calls[l].B.desc.shape[1];
        std::vector<float> next;
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::int64_t t = 0; t < k; ++t) {
              const float w = weights[l][t * calls[l].B.desc.stride[0] + j];
              sum += static_cast<double>(now[static_cast<std::size_t>(i * k + t)]) * w;
              if (std::isfinite(w)) *largest = std::max(*largest, std::abs(w));
            }
            // Wrong whatever the data: also where all sums are below zero.
            const double wrong_by = flaw == Flaw::WrongValue ? 1 : 0;
            next.push_back(static_cast<float>((sum < 0 ? 0 : sum) + wrong_by));
            if (keeps[l]) results[l][i * calls[l].Y.desc.stride[0] + j] = next.back();
          }
        }
        now = std::move(next);
      }
    };
    return fake.work(stream, cudaGraphNodeTypeKernel, takes_us, kernel) == cudaSuccess
               ? Status()
               : Status(StatusCode::CudaError, "the kernel could not be launched");
  };
  auto step = std::make_shared<TestStep>(way.name, std::move(reads), std::move(writes), body);
  if (flaw == Flaw::FailsToPrepare) step->prepare_status = {StatusCode::Unsupported, "no module"};
  return step;
}

/// Lowers each plan in a way or two, and runs of plans in those of `fused`.
class FusingBackend final : public Backend {
 public:
  explicit FusingBackend(FakeCuda& fake) : fake_(fake) {}

  Result<std::string> libraries() override { return std::string("fakeBLAS 1.2"); }
  [[nodiscard]] bool can_fuse(const GemmPlan& plan) const override { return plan.n() != refused_n; }
  [[nodiscard]] bool can_fuse_alone(const GemmPlan& /*plan*/) const override { return lone_too; }
  [[nodiscard]] std::size_t most_fused() const noexcept override { return most_plans; }

  double layer_us = 4;
  bool has_other_layers = false;  ///< each plan has a second, slower way
  std::vector<Way> fused = {{"chain/0", 3}, {"chain/1", 2}};
  std::string reason;                ///< why a run cannot be fused; empty: it can
  Status problem;                    ///< with the folder of kernels
  std::string forgotten;             ///< its recipe is of no use any more
  std::string without_module;        ///< cannot be prepared where it was recalled
  bool needs_alignment = false;      ///< a run whose X is not at a multiple of 16 has no candidate
  std::int64_t refused_n = -1;       ///< plans of this N cannot be fused
  bool lone_too = false;             ///< plans without another may be fused
  std::size_t most_plans = 100;      ///< that can be
  int lowered = 0;                   ///< plans
  std::vector<std::size_t> asked;    ///< runs in each call
  std::vector<std::size_t> most;     ///< FuseOptions::most of each call
  std::vector<std::string> folders;  ///< likewise
  std::vector<bool> cooperative;     ///< likewise
  mutable float largest = 0;         ///< weight that a fused kernel saw

 private:
  Result<std::vector<Task>> lower_run(std::span<const GemmPlan> run,
                                      const Recall& /*recall*/) override {
    ++lowered;
    Task task;
    task.name = "forward";
    task.candidates = {candidate("plain", gemm_step(fake_, run.front(), "plain", layer_us))};
    if (has_other_layers) {
      task.candidates.push_back(
          candidate("other", gemm_step(fake_, run.front(), "other", layer_us + 1)));
    }
    return std::vector<Task>{std::move(task)};
  }

  Result<std::vector<Task>> fuse_runs(std::span<const PlanRun> runs, const FuseOptions& options,
                                      const Recall& recall) override {
    asked.push_back(runs.size());
    most.push_back(options.most);
    folders.push_back(options.kernel_folder);
    cooperative.push_back(options.cooperative);
    if (!problem.ok()) options.on_problem(problem);
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < runs.size(); ++i) tasks.push_back(fuse_one(runs[i], recall, i));
    return tasks;
  }

  Task fuse_one(const PlanRun& run, const Recall& recall, std::size_t index) const {
    Task task;
    task.name = "chain of " + std::to_string(run.plans.size());
    std::string why = reason;
    const void* const x = run.plans.front().forward().A.data;
    if (needs_alignment && reinterpret_cast<std::uintptr_t>(x) % 16 != 0) why = "X is unaligned";
    if (!why.empty()) {
      task.candidates.push_back({"chain", why, true, {}});
      return task;
    }
    const RecalledCandidate* const known = recall ? recall(index) : nullptr;
    for (const Way& way : fused) {
      if (known == nullptr || way.name != known->name || way.name == forgotten) continue;
      Way mine = way;
      if (way.name == without_module) mine.flaw = Flaw::FailsToPrepare;
      task.candidates = {made(run, mine)};
      task.recalled = true;
      return task;
    }
    for (const Way& way : fused) task.candidates.push_back(made(run, way));
    task.compiled = fused.size();
    task.compile_s = 0.25 * static_cast<double>(fused.size());
    return task;
  }

  [[nodiscard]] Candidate made(const PlanRun& run, const Way& way) const {
    Candidate made = candidate(way.name, fused_step(fake_, run, way, &largest), way.trusted);
    made.recipe = std::string("make ") + way.name;
    return made;
  }

  FakeCuda& fake_;
};

/// Chains of layers over one backend, with a tuning file of their own.
struct FusedProgram {
  FusedProgram() {
    options.tuning_cache = folder / "tuning.json";
    options.on_tuning_warning = [this](const Status& status) {
      warnings.push_back(status.to_string());
    };
  }

  /// Adds Y = relu(X B) whose X is the last layer's Y, or a new one. The Y is a temporary's where
  /// `hidden`.
  Layer& add(std::int64_t n, bool hidden = false, bool begins = false) {
    const bool follows = !layers.empty() && !begins;
    const std::int64_t k = follows ? layers.back().call.Y.desc.shape[1] : 3;
    const Tensor x = follows ? layers.back().call.Y : Tensor();
    Layer& layer = layers.emplace_back(fake, 2, n, k);
    if (follows) layer.call.A = x;
    // Numbers that tell places apart, and no sum is below zero or inexact.
    auto* const b = static_cast<float*>(layer.call.B.data);
    for (std::int64_t i = 0; i < k * n; ++i) b[i] = static_cast<float>((i * 5 + n) % 4);
    if (hidden) {
      const Result<Tensor> made = program.temporary(layer.call.Y.desc);
      REQUIRE(made.ok());
      layer.call.Y = *made;
    }
    REQUIRE(program.add(layer.plan()).ok());
    return layer;
  }

  Result<Executable> try_capture(double budget_s = 10.0) {
    const bool measure = options.tuning != Tuning::Off;
    detail::TunerSettings tuner = settings(fake, measure, budget_s);
    tuner.kernel_folder = folder / "kernels";
    tuner.on_progress = options.on_tuning_progress;
    tuner.fuse_layers = options.fuse_layers;
    tuner.cooperative = options.cooperative_launches;
    return detail::capture_with(FakeCuda::api(), backend, program, options, tuner);
  }
  Executable capture(double budget_s = 10.0) {
    Result<Executable> made = try_capture(budget_s);
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    return std::move(*made);
  }

  /// What the plans give one by one, from the operands as they are now. The Ys in user memory.
  static std::vector<float> expected(const std::vector<GemmForward>& calls) {
    std::vector<float> now(
        static_cast<const float*>(calls.front().A.data),
        static_cast<const float*>(calls.front().A.data) + 2 * calls.front().A.desc.shape[1]);
    for (const GemmForward& call : calls) {
      const std::int64_t k = call.B.desc.shape[0];
      const std::int64_t n = call.B.desc.shape[1];
      std::vector<float> next;
      for (std::int64_t i = 0; i < 2; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (std::int64_t t = 0; t < k; ++t) {
            sum += now[static_cast<std::size_t>(i * k + t)] *
                   static_cast<const float*>(call.B.data)[t * n + j];
          }
          next.push_back(sum < 0 ? 0 : sum);
        }
      }
      now = std::move(next);
    }
    return now;
  }
  static std::vector<float> values(const Tensor& tensor) {
    const auto* const data = static_cast<const float*>(tensor.data);
    return {data, data + tensor.desc.shape[0] * tensor.desc.shape[1]};
  }
  [[nodiscard]] std::vector<GemmForward> calls() const {
    std::vector<GemmForward> all;
    for (const Layer& layer : layers) all.push_back(layer.call);
    return all;
  }

  FakeCuda fake;
  tuning::Folder folder;
  FusingBackend backend{fake};
  CaptureOptions options;
  std::vector<std::string> warnings;
  std::deque<Layer> layers;
  Program program;
};

inline std::vector<std::string> names(const Executable& executable) {
  std::vector<std::string> all;
  for (const Node& node : executable.nodes()) all.push_back(node.name);
  return all;
}

}  // namespace ai::test
