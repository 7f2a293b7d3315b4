#include <utility>
#include <vector>

#include "kernels/epilogue.hpp"
#include "kernels/launch.hpp"

namespace ai::kernels {
namespace {

constexpr int kThreads = 256;

MemoryRange bias_range(const Epilogue& epilogue) noexcept {
  constexpr std::int64_t kSize = sizeof(float);
  const std::int64_t stride = epilogue.bias_row + epilogue.bias_col;  // one of them, or neither
  if (epilogue.bias_count <= 1 || stride == 1) {
    return range_of(epilogue.bias, static_cast<std::size_t>(epilogue.bias_count * kSize));
  }
  return {reinterpret_cast<std::uintptr_t>(epilogue.bias), epilogue.bias_count, kSize,
          stride * kSize};
}

std::vector<MemoryRange> reads_of(const Epilogue& epilogue) {
  std::vector<MemoryRange> ranges;
  if (epilogue.raw.data != nullptr) ranges.push_back(range_of(epilogue.raw));
  if (epilogue.c.data != nullptr) ranges.push_back(range_of(epilogue.c));
  if (epilogue.bias != nullptr) ranges.push_back(bias_range(epilogue));
  return ranges;
}

std::vector<MemoryRange> writes_of(const Epilogue& epilogue) {
  std::vector<MemoryRange> ranges = {range_of(epilogue.y)};
  if (epilogue.z.data != nullptr) ranges.push_back(range_of(epilogue.z));
  return ranges;
}

bool in_fours(const MatrixView& view) noexcept {
  return view.data == nullptr ||
         (alignment_of(view.data) >= 16 && view.cols % 4 == 0 && view.ld % 4 == 0);
}

class EpilogueStep final : public Step {
 public:
  EpilogueStep(const cuda::Api& api, std::int64_t resident_threads, const Epilogue& epilogue,
               std::string name)
      : Step(std::move(name), reads_of(epilogue), writes_of(epilogue)),
        api_(api),
        max_blocks_(resident_threads / kThreads),
        epilogue_(epilogue) {}

  Status prepare() override {
    AI_RETURN_IF_ERROR(load(api_, epilogue_kernel(epilogue_.act, 1)));
    return load(api_, epilogue_kernel(epilogue_.act, 4));
  }

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    EpilogueArguments args = {epilogue_, 0, 0, 0};
    Epilogue& call = args.call;
    call.raw = mapped(addresses, call.raw);
    call.c = mapped(addresses, call.c);
    call.z = mapped(addresses, call.z);
    call.y = mapped(addresses, call.y);
    if (call.bias != nullptr) call.bias = static_cast<const float*>(addresses(call.bias));

    // Chosen by the addresses of this recording: a rebound operand may be aligned differently.
    const bool vector =
        in_fours(call.raw) && in_fours(call.c) && in_fours(call.z) && in_fours(call.y);
    const int width = vector ? 4 : 1;
    args.cols = call.y.cols / width;
    const std::int64_t units = args.cols * call.y.rows;
    const int threads = units >= kThreads ? kThreads : static_cast<int>((units + 31) / 32 * 32);
    const std::int64_t blocks = blocks_for(units, threads, max_blocks_);
    args.step_rows = blocks * threads / args.cols;
    args.step_cols = blocks * threads % args.cols;
    void* arguments[] = {&args};
    return launch(api_, epilogue_kernel(call.act, width), {blocks, threads}, stream, arguments);
  }

 private:
  const cuda::Api& api_;
  std::int64_t max_blocks_;
  Epilogue epilogue_;
};

}  // namespace

void Epilogue::set_bias(BiasKind kind, const VectorView& view) noexcept {
  bias = view.data;
  bias_count = view.count;
  bias_row = kind == BiasKind::PerM ? view.stride : 0;
  bias_col = kind == BiasKind::PerN ? view.stride : 0;
}

std::shared_ptr<Step> make_epilogue_step(const cuda::Api& api, std::int64_t resident_threads,
                                         const Epilogue& epilogue, std::string name) {
  return std::make_shared<EpilogueStep>(api, resident_threads, epilogue, std::move(name));
}

}  // namespace ai::kernels
