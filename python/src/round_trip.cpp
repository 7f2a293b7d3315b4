#include "round_trip.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "ai/capture.hpp"
#include "ai/direct.hpp"
#include "cuda/device_info.hpp"
#include "cuda/error.hpp"
#include "cuda/guards.hpp"
#include "cuda/owners.hpp"

namespace ge_python {
namespace {

using ai::Result;
using ai::Status;
using ai::Tensor;
using ai::cuda::Api;
using ai::cuda::DeviceMemory;
using ai::cuda::OwnedStream;

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kElementBytes = sizeof(float);

/// Private streams that wait for their next call. The direct path keeps scratch for each stream, so
/// a new one for each call would leave scratch behind each time.
class IdleStreams {
 public:
  Result<OwnedStream> take(const Api& api, int device) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<OwnedStream>& idle = idle_[device];
      if (!idle.empty()) {
        OwnedStream stream = std::move(idle.back());
        idle.pop_back();
        return stream;
      }
    }
    return ai::cuda::make_stream(api);
  }
  void give_back(int device, OwnedStream stream) {
    const std::lock_guard lock(mutex_);
    idle_[device].push_back(std::move(stream));
  }
  /// Never destroyed: the driver may be gone when static objects are.
  static IdleStreams& instance() {
    static IdleStreams& instance = *new IdleStreams;
    return instance;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<OwnedStream>> idle_;
};

/// An operand on the host and its packed image on the device.
struct Image {
  Tensor* operand = nullptr;  ///< the call's: becomes the image's description
  Tensor host = {};
  bool is_output = false;
  std::size_t rows = 0;
  std::size_t width = 0;  ///< bytes
  std::size_t pitch = 0;  ///< bytes between rows on the host

  Image() noexcept = default;
  Image(Tensor& of, bool output) noexcept : operand(&of), host(of), is_output(output) {
    const ai::TensorDesc& desc = of.desc;
    const std::int64_t cols = desc.shape.rank() == 2 ? desc.shape[1] : 1;
    rows = static_cast<std::size_t>(desc.shape[0]);
    width = static_cast<std::size_t>(cols) * kElementBytes;
    pitch = static_cast<std::size_t>(desc.stride[0]) * kElementBytes;
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return rows * width; }

  void place(std::byte* at, int device) const noexcept {
    ai::TensorDesc& desc = operand->desc;
    operand->data = bytes() > 0 ? at : nullptr;
    operand->device = ai::Device::CUDA;
    operand->device_index = device;
    if (desc.shape.rank() == 2) {
      desc.stride = {std::max<std::int64_t>(desc.shape[1], 1), 1};
    } else {
      desc.stride = {1};
    }
  }

  [[nodiscard]] Status copy_in(const Api& api, cudaStream_t stream) const noexcept {
    return copy(api, operand->data, width, host.data, pitch, cudaMemcpyHostToDevice, stream);
  }
  [[nodiscard]] Status copy_out(const Api& api, cudaStream_t stream) const noexcept {
    return copy(api, host.data, pitch, operand->data, width, cudaMemcpyDeviceToHost, stream);
  }

 private:
  Status copy(const Api& api, void* to, std::size_t to_pitch, const void* from,
              std::size_t from_pitch, cudaMemcpyKind kind, cudaStream_t stream) const noexcept {
    if (bytes() == 0) return {};
    if (rows == 1 || pitch == width) {  // a pitch has limits of its own
      AI_CUDA_RETURN_IF_ERROR(api, memcpy_async, to, from, bytes(), kind, stream);
      return {};
    }
    AI_CUDA_RETURN_IF_ERROR(api, memcpy_2d_async, to, to_pitch, from, from_pitch, width, rows, kind,
                            stream);
    return {};
  }
};

/// The operands of a call that have to be copied.
class Images {
 public:
  explicit Images(ai::GemmForward& call) noexcept {
    if (call.attrs.beta == 0.0F) call.C.reset();
    add(call.A, false);
    add(call.B, false);
    if (call.C) add(*call.C, false);
    if (call.bias) add(*call.bias, false);
    add(call.Y, true);
    if (call.Z) add(*call.Z, true);
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  void place(void* memory, int device) const noexcept {
    auto* at = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < count_; ++i) {
      images_[i].place(at, device);
      at += padded(images_[i]);
    }
  }
  [[nodiscard]] Status copy(bool outputs, const Api& api, cudaStream_t stream) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (images_[i].is_output != outputs) continue;
      AI_RETURN_IF_ERROR(outputs ? images_[i].copy_out(api, stream)
                                 : images_[i].copy_in(api, stream));
    }
    return {};
  }

 private:
  static std::size_t padded(const Image& image) noexcept {
    return (image.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  void add(Tensor& tensor, bool is_output) noexcept {
    images_[count_] = Image(tensor, is_output);
    bytes_ += padded(images_[count_++]);
  }

  std::array<Image, 6> images_{};
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

Status run(const Images& images, const ai::GemmForward& call, const Api& api,
           cudaStream_t stream) noexcept {
  AI_RETURN_IF_ERROR(images.copy(false, api, stream));
  AI_RETURN_IF_ERROR(ai::gemm::forward(call, stream));
  return images.copy(true, api, stream);
}

}  // namespace

Status forward_on_gpu(const ai::GemmPlan& plan, int device) noexcept try {
  AI_RETURN_IF_ERROR(ai::target_available(ai::Target::CUDA));
  const Api& api = ai::cuda::runtime_api();
  AI_RETURN_IF_ERROR(ai::cuda::check_device(api, device));
  const ai::cuda::DeviceGuard guard(api, device);
  AI_RETURN_IF_ERROR(guard.status());
  const ai::cuda::CaptureModeGuard relaxed(api);

  ai::GemmForward call = plan.forward();
  const Images images(call);
  Result<DeviceMemory> memory = DeviceMemory::allocate(api, device, images.bytes());
  AI_RETURN_IF_ERROR(memory.status());
  images.place(memory->data(), device);
  Result<OwnedStream> stream = IdleStreams::instance().take(api, device);
  AI_RETURN_IF_ERROR(stream.status());

  const Status ran = run(images, call, api, stream->get());
  // Also after an error: what was enqueued may still use the memory.
  const Status waited =
      ai::cuda::to_status(api, api.stream_synchronize(stream->get()), "cudaStreamSynchronize");
  AI_RETURN_IF_ERROR(ran);
  AI_RETURN_IF_ERROR(waited);
  IdleStreams::instance().give_back(device, std::move(*stream));
  return {};
} catch (const std::bad_alloc&) {
  return {ai::StatusCode::OutOfMemory, {}};
}

}  // namespace ge_python
