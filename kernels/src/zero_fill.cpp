#include "kernels/zero_fill.hpp"

#include <cstdint>
#include <utility>

#include "cuda/error.hpp"
#include "kernels/epilogue.hpp"

namespace ai::kernels {
namespace {

constexpr std::int64_t kMaxPitch = (std::int64_t{1} << 31) - 1;  // of a 2-D memset, in bytes

class ZeroFillStep final : public Step {
 public:
  ZeroFillStep(const cuda::Api& api, const MatrixView& view, std::string name)
      : Step(std::move(name), {}, {range_of(view)}), api_(api), view_(view) {}

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    const MemoryRange range = range_of(mapped(addresses, view_));
    const auto at = reinterpret_cast<void*>(range.begin);
    const auto width = static_cast<std::size_t>(range.width);
    const auto rows = static_cast<std::size_t>(range.rows);
    if (range.pitch == range.width) {
      AI_CUDA_RETURN_IF_ERROR(api_, memset_async, at, 0, width * rows, stream);
    } else {
      AI_CUDA_RETURN_IF_ERROR(api_, memset_2d_async, at, static_cast<std::size_t>(range.pitch), 0,
                              width, rows, stream);
    }
    return {};
  }

 private:
  const cuda::Api& api_;
  MatrixView view_;
};

}  // namespace

Result<std::shared_ptr<Step>> make_zero_fill_step(Machine& machine, const MatrixView& view,
                                                  const std::string& name) {
  const MemoryRange range = range_of(view);
  if (range.pitch == range.width || range.pitch <= kMaxPitch) {
    return std::shared_ptr<Step>(std::make_shared<ZeroFillStep>(machine.api(), view, name));
  }
  const Result<std::int64_t> resident_threads = machine.resident_threads();
  AI_RETURN_IF_ERROR(resident_threads.status());
  Epilogue nothing;
  nothing.y = view;
  return make_epilogue_step(machine.api(), *resident_threads, nothing, name);
}

}  // namespace ai::kernels
