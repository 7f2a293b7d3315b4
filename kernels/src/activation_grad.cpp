#include "activation_grad.hpp"

#include <optional>
#include <string>
#include <utility>

#include "activation_grad_steps.hpp"
#include "bias_grad_steps.hpp"
#include "kernels/gradients.hpp"

namespace ai::kernels {
namespace {

constexpr const char* kOneKernel = "activation_grad";
constexpr const char* kTwoStage = "activation_grad+bias_grad";

/// A thread of the one-kernel form walks at most so many rows (PerM: pieces of a row). With more,
/// spreading a sum over the GPU pays for the second kernel: on an H200, ReLU, 256 columns, PerN
/// took 5.4 us against 5.7 with 8 rows a thread, 8.3 against 6.7 with 16; Scalar 5.7 against 6.5
/// with 16.
std::int64_t most_steps(BiasKind kind) noexcept {
  return kind == BiasKind::PerN ? 8 : 16;
}

Candidate one_kernel(const cuda::Api& api, ActKind act, GradientArgs args, int sm_count,
                     bool rows_are_split) {
  Candidate candidate;
  candidate.name = kOneKernel;
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
  candidate.steps.push_back(gradient_step(api, act, args));
  return candidate;
}

Candidate two_stage(const cuda::Api& api, ActKind act, GradientArgs args,
                    const GradientGrid& grid) {
  args.grid = grid;
  args.partial = static_cast<double*>(symbolic::allocate(partial_bytes(args)));
  const std::int64_t parts = args.kind == BiasKind::Scalar ? grid.tiles * grid.parts : grid.parts;
  Candidate candidate;
  candidate.name = kTwoStage;
  candidate.steps.push_back(gradient_step(api, act, args));
  candidate.steps.push_back(bias_grad_step(api, args.partial, parts, args.target));
  return candidate;
}

/// A thread that walks all rows of a column beats threads that share them, and add up, only while
/// it has no more than these: all in flight at once.
constexpr std::int64_t kFewRows = 4;

/// The ways to what is asked of a matrix with elements.
class GradientWays {
 public:
  GradientWays(const cuda::Api& api, int sm_count, ActKind act, const GradientArgs& args) noexcept
      : api_(api),
        sm_count_(sm_count),
        act_(act),
        args_(args),
        grid_(full_grid(args.kind, args.gy.rows, args.gy.cols, sm_count)) {}

  /// Whether more than one way may be open.
  [[nodiscard]] bool has_choice() const {
    if (has_bias() && one().applicable()) return true;  // and the two kernels
    if (has_cub() && cub_reason(args_.kind, args_.gy, rows_are_split()).empty()) return true;
    return (has_rows() && rows().applicable()) || (has_tiles() && tiles().applicable());
  }
  /// The one that was found best earlier; none where it is none of these, or not open here.
  [[nodiscard]] std::optional<Candidate> known(const RecalledCandidate& recalled) const;
  /// All, in table order.
  [[nodiscard]] std::vector<Candidate> all() const;

 private:
  [[nodiscard]] Candidate rows() const { return rows_candidate(api_, act_, args_, sm_count_); }
  [[nodiscard]] Candidate tiles() const { return tiles_candidate(api_, act_, args_, sm_count_); }
  [[nodiscard]] Candidate one() const {
    return one_kernel(api_, act_, args_, sm_count_, rows_are_split());
  }
  [[nodiscard]] Candidate two() const { return two_stage(api_, act_, args_, grid_); }
  [[nodiscard]] Candidate cub() const {
    return cub_candidate(api_, args_.kind, args_.gy, args_.target, rows_are_split());
  }

  [[nodiscard]] bool has_bias() const noexcept { return args_.kind != BiasKind::None; }
  /// Whether the small forms have one for this.
  [[nodiscard]] bool has_rows() const noexcept {
    return args_.kind == BiasKind::PerN || args_.kind == BiasKind::None;
  }
  [[nodiscard]] bool has_tiles() const noexcept { return args_.kind == BiasKind::PerN; }
  /// Whether nothing but sums is asked for, and CUB has a form of them.
  [[nodiscard]] bool has_cub() const noexcept {
    return act_ == ActKind::None && args_.gz.data == nullptr && args_.gc.data == nullptr &&
           (args_.kind == BiasKind::Scalar || args_.kind == BiasKind::PerM);
  }
  [[nodiscard]] bool rows_are_split() const noexcept {
    return args_.kind == BiasKind::PerM && grid_.parts > 1;
  }
  [[nodiscard]] static Candidate with_recipe(Candidate candidate) {
    if (candidate.applicable()) candidate.recipe = candidate.name;
    return candidate;
  }

  const cuda::Api& api_;
  int sm_count_;
  ActKind act_;
  const GradientArgs& args_;
  GradientGrid grid_;
};

std::optional<Candidate> GradientWays::known(const RecalledCandidate& recalled) const {
  const std::string& name = recalled.name;
  if (recalled.recipe != name) return std::nullopt;
  std::optional<Candidate> candidate;
  if (name == kOneKernel) {
    candidate = with_recipe(one());
  } else if (has_bias() && name == kTwoStage) {
    candidate = with_recipe(two());
  } else if (has_rows() && name == kRowsForm) {
    candidate = with_recipe(rows());
  } else if (has_tiles() && name == kTilesForm) {
    candidate = with_recipe(tiles());
  } else if (has_cub() && name == cub_name(args_.kind)) {
    candidate = with_recipe(cub());
  }
  return candidate && candidate->applicable() ? candidate : std::nullopt;
}

std::vector<Candidate> GradientWays::all() const {
  std::vector<Candidate> candidates;
  // On an H200 cub_reduce beats both forms at [64,256] and [16384,1024]. cub_segmented_reduce,
  // one block a row, wins by 0.2 us at [64,256] and takes twice the time at [16384,1024].
  const bool cub_first = args_.kind == BiasKind::Scalar;
  const bool rows_first = !has_bias() || args_.gy.rows <= kFewRows;
  if (has_cub() && cub_first) candidates.push_back(with_recipe(cub()));
  if (has_rows() && rows_first) candidates.push_back(with_recipe(rows()));
  candidates.push_back(with_recipe(one()));
  if (has_cub() && !cub_first) candidates.push_back(with_recipe(cub()));
  if (has_tiles()) candidates.push_back(with_recipe(tiles()));
  if (has_rows() && !rows_first) candidates.push_back(with_recipe(rows()));
  if (has_bias()) candidates.push_back(with_recipe(two()));
  return candidates;
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

Task gradient_task(const cuda::Api& api, int sm_count, const GemmPlan& plan, void* gz,
                   const TaskRecall& recall) {
  const ActKind act = plan.attrs().act;
  const GradientArgs args = arguments(plan, gz);
  const bool has_bias = args.kind != BiasKind::None;
  Task task;
  if (plan.m() == 0 || plan.n() == 0) {
    if (!has_bias || args.target.accumulate || args.target.bias.count == 0) return task;
    Candidate zero;
    zero.name = "bias_grad/zero";
    zero.steps.push_back(bias_grad_step(api, nullptr, 0, args.target));
    task.candidates.push_back(std::move(zero));
    return task;
  }
  if (!has_bias && args.gz.data == nullptr && args.gc.data == nullptr) return task;
  const GradientWays ways(api, sm_count, act, args);
  const RecalledCandidate* recalled = ways.has_choice() ? recall() : nullptr;
  if (recalled != nullptr) {
    if (std::optional<Candidate> known = ways.known(*recalled)) {
      task.candidates.push_back(*std::move(known));
      task.recalled = true;
      return task;
    }
  }
  task.candidates = ways.all();
  return task;
}

}  // namespace ai::kernels
