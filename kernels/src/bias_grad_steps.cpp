#include "bias_grad_steps.hpp"

#include <string>
#include <utility>

#include "cuda/error.hpp"
#include "kernels/dry_run.hpp"
#include "kernels/launch.hpp"

namespace ai::kernels {
namespace {

std::vector<MemoryRange> reads_of(const MemoryRange& source, const BiasTarget& target) {
  std::vector<MemoryRange> reads = {source};
  if (target.accumulate) reads.push_back(range_of(target.bias));
  return reads;
}

class BiasGradStep final : public Step {
 public:
  BiasGradStep(const cuda::Api& api, const BiasGradArgs& args)
      : Step("bias_grad",
             reads_of(ai::range_of(args.partial,
                                   sizeof(double) * static_cast<std::size_t>(
                                                        args.parts * args.target.bias.count)),
                      args.target),
             {range_of(args.target.bias)}),
        api_(api),
        args_(args) {}

  Status prepare() override { return load(api_, bias_grad_kernel()); }

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    BiasGradArgs args = args_;
    if (args.partial != nullptr) args.partial = static_cast<double*>(addresses(args.partial));
    args.target.bias = mapped(addresses, args.target.bias);
    constexpr std::int64_t kMaxBlocks = 1 << 16;
    LaunchShape shape;
    shape.blocks =
        blocks_for(args.target.bias.count, std::int64_t{1} << args.lanes_log2, kMaxBlocks);
    shape.threads = kBiasGradThreads;
    return launch(api_, bias_grad_kernel(), shape, stream, args);
  }

 private:
  const cuda::Api& api_;
  BiasGradArgs args_;
};

/// A sum that CUB can take as it is.
struct CubSum {
  BiasKind kind = BiasKind::Scalar;
  MatrixView gy;
  BiasTarget target;

  cudaError_t operator()(void* temporary, std::size_t& bytes, Stream stream) const noexcept {
    if (kind == BiasKind::PerM) return cub_segmented_reduce(temporary, bytes, gy, target, stream);
    const bool one_column = gy.cols == 1;
    return cub_reduce(temporary, bytes, gy.data, gy.rows * gy.cols, one_column ? gy.ld : 1, target,
                      stream);
  }
  [[nodiscard]] const char* name() const noexcept { return cub_name(kind); }
  [[nodiscard]] const char* call() const noexcept {
    return kind == BiasKind::PerM ? "cub::DeviceSegmentedReduce::Reduce"
                                  : "cub::DeviceReduce::Reduce";
  }
};

class CubStep final : public Step {
 public:
  CubStep(const cuda::Api& api, const CubSum& sum, void* temporary, std::size_t bytes)
      : Step(sum.name(), reads_of(range_of(sum.gy), sum.target),
             {range_of(sum.target.bias), ai::range_of(temporary, bytes)}),
        api_(api),
        sum_(sum),
        temporary_(temporary),
        bytes_(bytes) {}

  // Which kernels CUB launches depends on the sizes and is known to CUB alone.
  Status prepare() override { return dry_run(api_, *this, AddressMap{}); }

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    CubSum sum = sum_;
    sum.gy = mapped(addresses, sum.gy);
    sum.target.bias = mapped(addresses, sum.target.bias);
    std::size_t bytes = bytes_;
    (void)api_.get_last_error();  // CUB would report whatever is pending as its own failure
    return cuda::to_status(api_, sum(addresses(temporary_), bytes, stream), sum_.call());
  }

 private:
  const cuda::Api& api_;
  CubSum sum_;
  void* temporary_;
  std::size_t bytes_;
};

}  // namespace

std::shared_ptr<Step> bias_grad_step(const cuda::Api& api, const double* partial,
                                     std::int64_t parts, const BiasTarget& target) {
  return std::make_shared<BiasGradStep>(
      api, BiasGradArgs{partial, parts, target, bias_grad_lanes_log2(target.bias.count)});
}

const char* cub_name(BiasKind kind) noexcept {
  return kind == BiasKind::PerM ? "cub_segmented_reduce" : "cub_reduce";
}

std::string cub_reason(BiasKind kind, const MatrixView& gy, bool rows_are_split) {
  if (kind == BiasKind::PerM && rows_are_split) {
    return std::to_string(gy.rows) + " rows of " + std::to_string(gy.cols) +
           " columns, one block each, leave the GPU idle";
  }
  if (kind == BiasKind::Scalar && gy.ld != gy.cols && gy.cols != 1) {
    return "gY has padding between rows: finding an element would take a division";
  }
  return {};
}

Candidate cub_candidate(const cuda::Api& api, BiasKind kind, const MatrixView& gy,
                        const BiasTarget& target, bool rows_are_split) {
  const CubSum sum{kind, gy, target};
  Candidate candidate;
  candidate.name = sum.name();
  candidate.reason = cub_reason(kind, gy, rows_are_split);
  if (!candidate.applicable()) return candidate;
  std::size_t bytes = 0;
  (void)api.get_last_error();
  if (const Status sized = cuda::to_status(api, sum(nullptr, bytes, nullptr), sum.call());
      !sized.ok()) {
    candidate.reason = "CUB cannot plan it: " + sized.to_string();
    return candidate;
  }
  bytes = bytes == 0 ? 1 : bytes;  // a null scratch would make the call a question for its size
  candidate.steps.push_back(std::make_shared<CubStep>(api, sum, symbolic::allocate(bytes), bytes));
  return candidate;
}

}  // namespace ai::kernels
