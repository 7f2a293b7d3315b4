#include "capture/trial.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "capture/enqueue.hpp"
#include "cuda/error.hpp"

namespace ai::detail {
namespace {

// A prime number of values: no row of a matrix repeats another.
constexpr std::size_t kPatternLength = 65521;
// Of a larger output so many bytes are compared, in so many windows: the first at its beginning,
// the last at its end. One less is a multiple of three, so that a third into the output, where
// values are planted, there is one.
constexpr std::size_t kComparedBytes = std::size_t{8} << 20;
constexpr std::size_t kWindows = 16;
// Of the largest result and each one itself. Sums in f32, in whatever order, stay within 1e-5 of
// that up to K = 16384; with operands rounded to TF32 the worst of many results is 1.3e-4 to 4e-4
// away at any K. (Of 8 results or fewer now and then none is 1e-4 away.)
constexpr float kTolerance = 1e-4F;

std::vector<float> pattern_of(float scale) {
  std::vector<float> made(kPatternLength);
  std::uint32_t state = 12345;
  for (float& value : made) {
    state = state * 1664525U + 1013904223U;
    value = (static_cast<float>(state >> 8) / 8388608.0F - 1.0F) * scale;
  }
  return made;
}

std::size_t elements(const MemoryRange& range) noexcept {
  return static_cast<std::size_t>(range.rows) * (static_cast<std::size_t>(range.width) / 4);
}

std::uintptr_t address_of(const MemoryRange& range, std::size_t element) noexcept {
  const std::size_t columns = static_cast<std::size_t>(range.width) / 4;
  return range.begin + element / columns * static_cast<std::size_t>(range.pitch) +
         element % columns * 4;
}

/// The windows of [0, total) bytes of a range that are read back; all begin and end at multiples of
/// 4, as `total` does.
std::vector<Interval> windows(std::size_t total) {
  if (total <= kComparedBytes) return {{0, total}};
  constexpr std::size_t kBytes = kComparedBytes / kWindows;
  std::vector<Interval> all;
  for (std::size_t i = 0; i < kWindows; ++i) {
    const std::size_t begin = (total - kBytes) / 4 * i / (kWindows - 1) * 4;
    all.push_back({begin, begin + kBytes});
  }
  return all;
}

/// Appends the elements of `range` that lie in its bytes `window`, held in `bytes`.
void gather(const MemoryRange& range, const Interval& window, const std::vector<std::byte>& bytes,
            std::vector<float>& values) {
  const auto width = static_cast<std::size_t>(range.width);
  const auto pitch = static_cast<std::size_t>(range.pitch);
  const auto rows = static_cast<std::size_t>(range.rows);
  const std::size_t first = pitch == 0 ? 0 : window.begin / pitch;
  for (std::size_t row = first; row < rows && row * pitch < window.end; ++row) {
    const std::size_t begin = std::max(row * pitch, window.begin);
    const std::size_t end = std::min(row * pitch + width, window.end);
    if (end <= begin) continue;
    const std::size_t count = (end - begin) / 4;
    values.resize(values.size() + count);
    std::memcpy(values.data() + values.size() - count, bytes.data() + (begin - window.begin),
                count * 4);
  }
}

std::string element_text(std::size_t i, float got, float expected) {
  return "element " + std::to_string(i) + " is " + std::to_string(got) +
         " where the fallback has " + std::to_string(expected);
}

bool same_kind(float a, float b) noexcept {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return true;
}

}  // namespace

Trial::Trial(const cuda::Api& api, cudaStream_t stream, const ScratchLayout& layout,
             TrialOperands operands, void* scratch, float scale)
    : api_(api),
      stream_(stream),
      operands_(std::move(operands)),
      state_(layout.state()),
      scratch_(static_cast<std::byte*>(scratch)),
      bytes_(layout.bytes()),
      addresses_(layout.over(scratch)),
      pattern_(pattern_of(scale)) {}

Status Trial::fill(TrialData data) {
  const std::size_t once = std::min(bytes_, kPatternLength * sizeof(float));
  if (bytes_ == 0) return {};
  fill_failed_ = true;
  AI_CUDA_RETURN_IF_ERROR(api_, memcpy_async, scratch_, pattern_.data(), once,
                          cudaMemcpyHostToDevice, stream_);
  for (std::size_t filled = once; filled < bytes_;) {
    const std::size_t next = std::min(filled, bytes_ - filled);
    AI_CUDA_RETURN_IF_ERROR(api_, memcpy_async, scratch_ + filled, scratch_, next,
                            cudaMemcpyDeviceToDevice, stream_);
    filled += next;
  }
  AI_RETURN_IF_ERROR(plant(data));
  AI_RETURN_IF_ERROR(poison());
  fill_failed_ = false;
  return {};
}

Status Trial::plant(TrialData data) {
  static constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  static constexpr float kInf = std::numeric_limits<float>::infinity();
  static constexpr float kMinusInf = -kInf;
  if (data == TrialData::Plain) return {};
  const auto set = [&](const MemoryRange& range, std::size_t element, const float& value) {
    void* const place = addresses_(reinterpret_cast<const void*>(address_of(range, element)));
    return cuda::to_status(
        api_, api_.memcpy_async(place, &value, sizeof value, cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync");
  };
  const bool nan = data == TrialData::WithNaN;
  for (const MemoryRange& range : operands_.inputs) {
    const std::size_t count = elements(range);
    if (count == 0) continue;
    AI_RETURN_IF_ERROR(set(range, count / 3, nan ? kNaN : kInf));
    AI_RETURN_IF_ERROR(set(range, count - 1, nan ? kNaN : kMinusInf));
  }
  return {};
}

Status Trial::poison() {
  AI_RETURN_IF_ERROR(set_all(operands_.fresh, 0xFF));
  return set_all(state_, 0);
}

Status Trial::set_all(std::span<const MemoryRange> ranges, int byte) {
  for (const MemoryRange& range : ranges) {
    void* const place = addresses_(reinterpret_cast<const void*>(range.begin));
    const auto width = static_cast<std::size_t>(range.width);
    const std::size_t pitch = range.rows == 1 ? width : static_cast<std::size_t>(range.pitch);
    AI_CUDA_RETURN_IF_ERROR(api_, memset_2d_async, place, pitch, byte, width,
                            static_cast<std::size_t>(range.rows), stream_);
  }
  return {};
}

Result<TrialOutputs> Trial::run(const Candidate& candidate, TrialData data) {
  AI_RETURN_IF_ERROR(fill(data));
  for (const std::shared_ptr<Step>& step : candidate.steps) {
    AI_RETURN_IF_ERROR(enqueue(*step, addresses_, stream_));
  }
  AI_CUDA_RETURN_IF_ERROR(api_, stream_synchronize, stream_);
  return read();
}

Result<TrialOutputs> Trial::read() {
  TrialOutputs outputs;
  std::vector<std::byte> bytes;
  for (const MemoryRange& range : operands_.outputs) {
    std::vector<float>& values = outputs.emplace_back();
    for (const Interval& window : windows(range.end() - range.begin)) {
      bytes.resize(window.end - window.begin);
      const auto* const from =
          static_cast<const std::byte*>(addresses_(reinterpret_cast<const void*>(range.begin)));
      AI_CUDA_RETURN_IF_ERROR(api_, memcpy_async, bytes.data(), from + window.begin, bytes.size(),
                              cudaMemcpyDeviceToHost, stream_);
      AI_CUDA_RETURN_IF_ERROR(api_, stream_synchronize, stream_);
      gather(range, window, bytes, values);
    }
  }
  return outputs;
}

std::string Trial::difference(const TrialOutputs& expected, const TrialOutputs& got) const {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::string what = detail::difference(expected[i], got[i]);
    if (what.empty()) continue;
    const MemoryRange& range = operands_.outputs[i];
    return "in the output of " + std::to_string(range.rows) + " rows of " +
           std::to_string(range.width) + " bytes " + what;
  }
  return {};
}

std::string difference(std::span<const float> expected, std::span<const float> got) {
  if (expected.size() != got.size()) return "the number of elements differs";
  float scale = 0;
  for (const float value : expected) {
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float a = got[i];
    const float b = expected[i];
    const bool close = std::fabs(a - b) <= kTolerance * (std::fabs(b) + scale);
    if (close && std::isfinite(b)) continue;  // so is a
    if (!same_kind(a, b) || std::isfinite(b)) return element_text(i, a, b);
  }
  return {};
}

}  // namespace ai::detail
