#include <string>

#include "capture/copy_step.hpp"
#include "capture/lowering.hpp"
#include "cuda/error.hpp"

namespace ai::detail {
namespace {

constexpr std::int64_t kMaxPitch = (std::int64_t{1} << 31) - 1;  // of a 2-D copy, in bytes

bool is_contiguous(const MemoryRange& range) noexcept {
  return range.rows <= 1 || range.pitch == range.width;
}

class CudaCopyStep final : public Step {
 public:
  CudaCopyStep(const cuda::Api& api, const CopyStep& copy)
      : Step(name_of(copy), {range_of(copy.from)}, {range_of(copy.to)}),
        api_(api),
        kind_(copy.in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost),
        copy_(copy) {}

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    const MemoryRange from = range_of(addresses(copy_.from));
    const MemoryRange to = range_of(addresses(copy_.to));
    if (from.empty()) return {};
    const auto* const source = reinterpret_cast<const void*>(from.begin);
    auto* const destination = reinterpret_cast<void*>(to.begin);
    const auto width = static_cast<std::size_t>(from.width);
    const auto rows = static_cast<std::size_t>(from.rows);
    if (is_contiguous(from) && is_contiguous(to)) {
      AI_CUDA_RETURN_IF_ERROR(api_, memcpy_async, destination, source, width * rows, kind_, stream);
      return {};
    }
    AI_CUDA_RETURN_IF_ERROR(api_, memcpy_2d_async, destination, static_cast<std::size_t>(to.pitch),
                            source, static_cast<std::size_t>(from.pitch), width, rows, kind_,
                            stream);
    return {};
  }

 private:
  const cuda::Api& api_;
  cudaMemcpyKind kind_;
  CopyStep copy_;
};

Status check_pitch(const CopyStep& copy, const Tensor& tensor, const char* name) {
  const MemoryRange range = range_of(tensor);
  if (range.pitch <= kMaxPitch) return {};
  return {StatusCode::Unsupported, std::string(name) + " of " + name_of(copy) + " has rows " +
                                       std::to_string(range.pitch) +
                                       " bytes apart, expected at most " +
                                       std::to_string(kMaxPitch) + " (the most of a 2-D copy)"};
}

}  // namespace

Result<std::shared_ptr<Step>> make_cuda_copy(const cuda::Api& api, const CopyStep& copy) {
  if (!is_contiguous(range_of(copy.from)) || !is_contiguous(range_of(copy.to))) {
    AI_RETURN_IF_ERROR(check_pitch(copy, copy.host(), "host"));
    AI_RETURN_IF_ERROR(check_pitch(copy, copy.device(), "device"));
  }
  return std::shared_ptr<Step>(std::make_shared<CudaCopyStep>(api, copy));
}

}  // namespace ai::detail
