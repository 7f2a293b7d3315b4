#include "activation_grad_steps.hpp"

#include "kernels/launch.hpp"

namespace ai::kernels {

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

namespace {

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

}  // namespace

std::shared_ptr<Step> gradient_step(const cuda::Api& api, ActKind act, const GradientArgs& args) {
  return std::make_shared<GradientStep>(api, act, args);
}

}  // namespace ai::kernels
