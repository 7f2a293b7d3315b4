#include "activation_grad.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include "bias_grad_steps.hpp"
#include "kernels/gradients.hpp"
#include "kernels/launch.hpp"

namespace ai::kernels {
namespace {

/// A thread of the one-kernel form walks at most so many rows (PerM: pieces of a row). With more,
/// spreading a sum over the GPU pays for the second kernel: on an H200, ReLU, 256 columns, PerN
/// took 5.4 us against 5.7 with 8 rows a thread, 8.3 against 6.7 with 16; Scalar 5.7 against 6.5
/// with 16.
std::int64_t most_steps(BiasKind kind) noexcept {
  return kind == BiasKind::PerN ? 8 : 16;
}

std::size_t partial_bytes(const GradientArgs& args) noexcept {
  const std::int64_t sums = args.kind == BiasKind::Scalar
                                ? args.grid.tiles * args.grid.parts
                                : args.target.bias.count * args.grid.parts;
  return static_cast<std::size_t>(sums) * sizeof(double);
}

std::vector<MemoryRange> reads_of(const GradientArgs& args) {
  std::vector<MemoryRange> reads = {range_of(args.gy)};
  if (args.z.data != nullptr) reads.push_back(range_of(args.z));
  if (args.gc.data != nullptr && args.accumulate_c) reads.push_back(range_of(args.gc));
  if (args.kind != BiasKind::None && args.partial == nullptr && args.target.accumulate) {
    reads.push_back(range_of(args.target.bias));
  }
  return reads;
}

std::vector<MemoryRange> writes_of(const GradientArgs& args) {
  std::vector<MemoryRange> writes;
  if (args.gz.data != nullptr) writes.push_back(range_of(args.gz));
  if (args.gc.data != nullptr) writes.push_back(range_of(args.gc));
  if (args.partial != nullptr) {
    writes.push_back(ai::range_of(args.partial, partial_bytes(args)));
  } else if (args.kind != BiasKind::None) {
    writes.push_back(range_of(args.target.bias));
  }
  return writes;
}

bool vectors_allowed(const GradientArgs& args) noexcept {
  if (args.gy.cols % kLaneColumns != 0) return false;
  for (const MatrixView* view : {&args.gy, &args.z, &args.gz, &args.gc}) {
    if (view->data != nullptr &&
        (view->ld % kLaneColumns != 0 || alignment_of(view->data) < sizeof(float4))) {
      return false;
    }
  }
  return true;
}

class GradientStep final : public Step {
 public:
  GradientStep(const cuda::Api& api, ActKind act, const GradientArgs& args)
      : Step("activation_grad", reads_of(args), writes_of(args)),
        api_(api),
        act_(act),
        args_(args) {}

  Status prepare() override {
    AI_RETURN_IF_ERROR(load(api_, kernel(true)));
    return load(api_, kernel(false));
  }

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    GradientArgs args = args_;
    args.gy = mapped(addresses, args.gy);
    args.z = mapped(addresses, args.z);
    args.gz = mapped(addresses, args.gz);
    args.gc = mapped(addresses, args.gc);
    args.target.bias = mapped(addresses, args.target.bias);
    if (args.partial != nullptr) args.partial = static_cast<double*>(addresses(args.partial));
    LaunchShape shape;
    shape.blocks = args.grid.blocks;
    shape.threads = kGradientThreads;
    // Only now are all addresses known.
    return launch(api_, kernel(vectors_allowed(args)), shape, stream, args);
  }

 private:
  [[nodiscard]] GradientKernel kernel(bool vectors) const noexcept {
    return gradient_kernel(act_, {args_.kind == BiasKind::PerM, args_.gc.data != nullptr, vectors});
  }

  const cuda::Api& api_;
  ActKind act_;
  GradientArgs args_;
};

Candidate one_kernel(const cuda::Api& api, ActKind act, GradientArgs args, int sm_count,
                     bool rows_are_split) {
  Candidate candidate;
  candidate.name = "activation_grad";
  const std::int64_t m = args.gy.rows;
  const std::int64_t n = args.gy.cols;
  args.grid = one_kernel_grid(args.kind, m, n, sm_count);
  if (args.kind != BiasKind::None) {
    const std::int64_t steps = steps_per_thread(args.grid, args.kind);
    if (steps < 0) {
      candidate.reason = "one block cannot hold " + std::to_string(n) + " columns";
    } else if (steps > most_steps(args.kind) && (args.kind != BiasKind::PerM || rows_are_split)) {
      candidate.reason = "without a second kernel each thread would walk " + std::to_string(steps) +
                         (args.kind == BiasKind::PerM ? " pieces of a row" : " rows") +
                         ", expected at most " + std::to_string(most_steps(args.kind));
    }
    if (!candidate.applicable()) return candidate;
  }
  candidate.steps.push_back(std::make_shared<GradientStep>(api, act, args));
  return candidate;
}

Candidate two_stage(const cuda::Api& api, ActKind act, GradientArgs args,
                    const GradientGrid& grid) {
  args.grid = grid;
  args.partial = static_cast<double*>(symbolic::allocate(partial_bytes(args)));
  const std::int64_t parts = args.kind == BiasKind::Scalar ? grid.tiles * grid.parts : grid.parts;
  Candidate candidate;
  candidate.name = "activation_grad+bias_grad";
  candidate.steps.push_back(std::make_shared<GradientStep>(api, act, args));
  candidate.steps.push_back(bias_grad_step(api, args.partial, parts, args.target));
  return candidate;
}

GradientArgs arguments(const GemmPlan& plan, void* gz) {
  const GemmBackward& call = plan.backward();
  GradientArgs args;
  args.gy = matrix_view(call.gY);
  if (call.attrs.act != ActKind::None) args.z = matrix_view(call.Z);
  if (gz != nullptr) args.gz = packed(gz, plan.m(), plan.n());
  args.beta = call.attrs.beta;
  args.slope = call.attrs.leaky_slope;
  if (call.gC) {
    args.accumulate_c = call.gC->mode == GradMode::Accumulate;
    if (args.beta != 0.0F || !args.accumulate_c) args.gc = matrix_view(call.gC->tensor);
  }
  if (call.gBias) {
    args.kind = plan.bias_kind();
    args.target.bias = vector_view(call.gBias->tensor);
    args.target.accumulate = call.gBias->mode == GradMode::Accumulate;
  }
  return args;
}

}  // namespace

GradientKernel gradient_kernel(ActKind act, const GradientForm& form) noexcept {
  if (const GradientKernel kernel = linear_gradient_kernel(act, form)) return kernel;
  if (const GradientKernel kernel = exp_gradient_kernel(act, form)) return kernel;
  return gelu_gradient_kernel(act, form);
}

Result<std::vector<Candidate>> gradient_candidates(const cuda::Api& api, int sm_count,
                                                   const GemmPlan& plan, void* gz) {
  const ActKind act = plan.attrs().act;
  const GradientArgs args = arguments(plan, gz);
  const bool has_bias = args.kind != BiasKind::None;
  std::vector<Candidate> candidates;
  if (plan.m() == 0 || plan.n() == 0) {
    if (!has_bias || args.target.accumulate || args.target.bias.count == 0) return candidates;
    Candidate zero;
    zero.name = "bias_grad/zero";
    zero.steps.push_back(bias_grad_step(api, nullptr, 0, args.target));
    candidates.push_back(std::move(zero));
    return candidates;
  }
  if (!has_bias && args.gz.data == nullptr && args.gc.data == nullptr) return candidates;

  const GradientGrid grid = full_grid(args.kind, plan.m(), plan.n(), sm_count);
  const bool rows_are_split = args.kind == BiasKind::PerM && grid.parts > 1;
  Candidate one = one_kernel(api, act, args, sm_count, rows_are_split);
  if (act != ActKind::None || args.gz.data != nullptr || args.gc.data != nullptr ||
      args.kind == BiasKind::PerN) {
    candidates.push_back(std::move(one));
    if (!has_bias) return candidates;
  } else {
    // On an H200 cub_reduce beats both forms at [64,256] and [16384,1024]. cub_segmented_reduce,
    // one block a row, wins by 0.2 us at [64,256] and takes twice the time at [16384,1024].
    Candidate cub = cub_candidate(api, args.kind, args.gy, args.target, rows_are_split);
    const bool cub_first = args.kind == BiasKind::Scalar;
    candidates.push_back(std::move(cub_first ? cub : one));
    candidates.push_back(std::move(cub_first ? one : cub));
  }
  candidates.push_back(two_stage(api, act, args, grid));
  return candidates;
}

}  // namespace ai::kernels
