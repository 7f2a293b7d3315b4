#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "epilogue_small.hpp"
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

/// Whether the kernel over one element a thread can do it: nothing but a bias and an activation
/// over what is there, with indices below 2^31.
bool is_plain(const Epilogue& epilogue) noexcept {
  const MatrixView& raw = epilogue.raw;
  const auto fits = [](std::int64_t count, std::int64_t stride, std::int64_t width) {
    return (count - 1) * stride + width <= std::numeric_limits<std::int32_t>::max();
  };
  const bool in_place =
      epilogue.z.data == nullptr || (epilogue.z.data == raw.data && epilogue.z.ld == raw.ld);
  return raw.data != nullptr && epilogue.c.data == nullptr && in_place &&
         fits(raw.rows, raw.ld, raw.cols) && fits(raw.rows, epilogue.y.ld, raw.cols) &&
         fits(raw.rows, epilogue.bias_row, 1) && fits(raw.cols, epilogue.bias_col, 1);
}

/// One thread an element pays while all of them run at once: then nothing is left to share, and the
/// least code wins. Beyond, blocks queue up, and four elements a thread need a quarter of them.
std::optional<LaunchShape> small_shape(const Epilogue& epilogue, std::int64_t resident_threads) {
  constexpr std::int64_t kSmThreads = 2048;
  if (!is_plain(epilogue) || epilogue.y.rows > resident_threads / epilogue.y.cols) {
    return std::nullopt;
  }
  const LaunchShape shape =
      element_shape(epilogue.y.rows, epilogue.y.cols, resident_threads / kSmThreads);
  const std::int64_t threads = shape.blocks * shape.blocks_y * shape.threads * shape.threads_y;
  if (threads > resident_threads || shape.blocks_y > kMostBlocksY) return std::nullopt;
  return shape;
}

class EpilogueStep final : public Step {
 public:
  EpilogueStep(const cuda::Api& api, std::int64_t resident_threads, const Epilogue& epilogue,
               std::string name)
      : Step(std::move(name), reads_of(epilogue), writes_of(epilogue)),
        api_(api),
        max_blocks_(resident_threads / kThreads),
        small_(small_shape(epilogue, resident_threads)),
        epilogue_(epilogue) {}

  Status prepare() override {
    if (small_) return load(api_, small_kernel());
    AI_RETURN_IF_ERROR(load(api_, epilogue_kernel(epilogue_.act, 1)));
    return load(api_, epilogue_kernel(epilogue_.act, 4));
  }

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    Epilogue call = epilogue_;
    call.raw = mapped(addresses, call.raw);
    call.c = mapped(addresses, call.c);
    call.z = mapped(addresses, call.z);
    call.y = mapped(addresses, call.y);
    if (call.bias != nullptr) call.bias = static_cast<const float*>(addresses(call.bias));
    return small_ ? enqueue_small(call, stream) : enqueue_any(call, stream);
  }

 private:
  [[nodiscard]] const void* small_kernel() const noexcept {
    return small_epilogue_kernel(epilogue_.act, epilogue_.z.data != nullptr);
  }

  Status enqueue_small(const Epilogue& call, Stream stream) {
    const auto narrow = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
    SmallEpilogue args = {.raw = call.raw.data,
                          .y = call.y.data,
                          .bias = call.bias,
                          .rows = narrow(call.y.rows),
                          .cols = narrow(call.y.cols),
                          .ld_raw = narrow(call.raw.ld),
                          .ld_y = narrow(call.y.ld),
                          .bias_row = narrow(call.bias_row),
                          .bias_col = narrow(call.bias_col),
                          .slope = call.slope};
    void* arguments[] = {&args};
    return launch(api_, small_kernel(), *small_, stream, arguments);
  }

  Status enqueue_any(const Epilogue& call, Stream stream) {
    EpilogueArguments args = {call, 0, 0, 0};
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

  const cuda::Api& api_;
  std::int64_t max_blocks_;
  std::optional<LaunchShape> small_;
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
