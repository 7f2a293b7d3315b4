#include "activation_grad_small.hpp"

#include <limits>
#include <string>

#include "activation_grad_steps.hpp"

namespace ai::kernels {
namespace {

constexpr std::int64_t kMostRows = 32;  ///< that one thread walks
/// Of a tile: each thread of a full block has one round of rows in flight.
constexpr std::int64_t kMostTileRows = 4 * kMostTileThreads / kTileColumns;

struct SmallLaunch {
  SmallGradientForm form;
  LaunchShape shape;

  [[nodiscard]] std::int64_t threads() const noexcept {
    return shape.blocks * shape.blocks_y * shape.threads * shape.threads_y;
  }
};

SmallLaunch rows_launch(const GradientArgs& args, int sm_count) noexcept {
  if (args.kind == BiasKind::None || args.gy.rows == 1) {
    return {SmallGradientForm::Elements, element_shape(args.gy.rows, args.gy.cols, sm_count)};
  }
  return {SmallGradientForm::Columns, element_shape(1, args.gy.cols, sm_count)};
}

/// Threads for at most four rows each, in whole warps; a power of two of them.
SmallLaunch tiles_launch(const GradientArgs& args) noexcept {
  int threads = 32;
  while (threads < kMostTileThreads && std::int64_t{4} * threads / kTileColumns < args.gy.rows) {
    threads *= 2;
  }
  LaunchShape shape;
  shape.blocks = blocks_for(args.gy.cols, kTileColumns, args.gy.cols);
  shape.threads = threads;
  return {SmallGradientForm::Tiles, shape};
}

class SmallGradientStep final : public Step {
 public:
  SmallGradientStep(const cuda::Api& api, ActKind act, const GradientArgs& args,
                    const SmallLaunch& launch)
      : Step("activation_grad", reads_of(args), writes_of(args)),
        api_(api),
        kernel_(small_gradient_kernel(act, launch.form)),
        shape_(launch.shape),
        args_(args) {}

  Status prepare() override { return load(api_, kernel_); }

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    const auto narrow = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
    const bool has_bias = args_.kind != BiasKind::None;
    SmallGradient call;
    call.gy = mapped(addresses, args_.gy).data;
    call.z = mapped(addresses, args_.z).data;
    call.gz = mapped(addresses, args_.gz).data;
    if (has_bias) call.bias = mapped(addresses, args_.target.bias).data;
    call.rows = narrow(args_.gy.rows);
    call.cols = narrow(args_.gy.cols);
    call.ld_gy = narrow(args_.gy.ld);
    call.ld_z = narrow(args_.z.ld);
    call.bias_stride = narrow(args_.target.bias.stride);
    call.slope = args_.slope;
    call.accumulate = has_bias && args_.target.accumulate;
    return launch(api_, kernel_, shape_, stream, call);
  }

 private:
  const cuda::Api& api_;
  SmallGradientKernel kernel_;
  LaunchShape shape_;
  GradientArgs args_;
};

bool has_small_indices(const GradientArgs& args) noexcept {
  const auto fits = [](std::int64_t count, std::int64_t stride, std::int64_t width) {
    return (count - 1) * stride + width <= std::numeric_limits<std::int32_t>::max();
  };
  for (const MatrixView* view : {&args.gy, &args.z, &args.gz}) {
    if (view->data != nullptr && !fits(view->rows, view->ld, view->cols)) return false;
  }
  return args.kind == BiasKind::None || fits(args.target.bias.count, args.target.bias.stride, 1);
}

/// Empty where such a launch can do it.
std::string reason_against(const GradientArgs& args, std::int64_t most_rows) {
  if (args.gc.data != nullptr) return "it makes no gC";
  if (args.kind != BiasKind::None && args.gy.rows > most_rows) {
    return "each column has " + std::to_string(args.gy.rows) + " rows, expected at most " +
           std::to_string(most_rows);
  }
  if (!has_small_indices(args)) return "an operand spans 2^31 elements or more";
  return {};
}

Candidate small_candidate(const cuda::Api& api, ActKind act, const GradientArgs& args, int sm_count,
                          const char* name, const SmallLaunch& launch, std::int64_t most_rows) {
  Candidate candidate;
  candidate.name = name;
  candidate.reason = reason_against(args, most_rows);
  if (!candidate.applicable()) return candidate;
  // Least code wins while all threads run at once; beyond, doing more with each of them does.
  const std::int64_t most = std::int64_t{kGradientBlocksPerSm} * kGradientThreads * sm_count;
  if (launch.threads() > most || launch.shape.blocks_y > kMostBlocksY) {
    candidate.reason = "it would take " + std::to_string(launch.threads()) +
                       " threads, expected at most " + std::to_string(most);
    return candidate;
  }
  candidate.steps.push_back(std::make_shared<SmallGradientStep>(api, act, args, launch));
  return candidate;
}

}  // namespace

Candidate rows_candidate(const cuda::Api& api, ActKind act, const GradientArgs& args,
                         int sm_count) {
  return small_candidate(api, act, args, sm_count, kRowsForm, rows_launch(args, sm_count),
                         kMostRows);
}

Candidate tiles_candidate(const cuda::Api& api, ActKind act, const GradientArgs& args,
                          int sm_count) {
  return small_candidate(api, act, args, sm_count, kTilesForm, tiles_launch(args), kMostTileRows);
}

}  // namespace ai::kernels
