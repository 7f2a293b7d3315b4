#include <string>

#include "capture/cuda_capture.hpp"
#include "capture/lowering.hpp"
#include "cuda/error.hpp"

namespace ai::detail {
namespace {

std::string place_of(const cudaPointerAttributes& attributes) {
  switch (attributes.type) {
    case cudaMemoryTypeDevice: return "memory of device " + std::to_string(attributes.device);
    case cudaMemoryTypeManaged:
      return "managed memory of device " + std::to_string(attributes.device);
    case cudaMemoryTypeHost: return "pinned host memory";
    default: return "memory that CUDA does not know (host memory, or freed)";
  }
}

bool is_device_memory(const cudaPointerAttributes& attributes, int device) {
  const bool reachable =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return reachable && attributes.device == device;
}

Status look_up(const cuda::Api& api, const void* data, cudaPointerAttributes& attributes) {
  const Status status = cuda::to_status(api, api.pointer_get_attributes(&attributes, data),
                                        "cudaPointerGetAttributes");
  if (status.ok()) return status;
  return {status.code(), "points to memory that could not be looked up: " + status.message()};
}

/// `range` is pinned from its first to its last byte: only such memory is read and written by the
/// device itself, any other is staged by the driver.
Status check_host(const cuda::Api& api, const MemoryRange& range) {
  constexpr const char* kExpected =
      ", expected pinned host memory (cudaHostAlloc, cudaHostRegister)";
  cudaPointerAttributes attributes{};
  AI_RETURN_IF_ERROR(look_up(api, reinterpret_cast<const void*>(range.begin), attributes));
  if (attributes.type != cudaMemoryTypeHost) {
    return {StatusCode::DeviceMismatch, "points to " + place_of(attributes) + kExpected};
  }
  AI_RETURN_IF_ERROR(look_up(api, reinterpret_cast<const void*>(range.end() - 1), attributes));
  if (attributes.type != cudaMemoryTypeHost) {
    return {StatusCode::DeviceMismatch,
            "points to pinned host memory that ends before the tensor does" +
                std::string(kExpected) + " throughout"};
  }
  return {};
}

}  // namespace

Status check_pointer(const cuda::Api& api, const Tensor& tensor, int device) {
  const MemoryRange range = range_of(tensor);
  if (range.empty() || symbolic::is_symbolic(tensor.data)) return {};
  if (tensor.device == Device::CPU) return check_host(api, range);
  cudaPointerAttributes attributes{};
  AI_RETURN_IF_ERROR(look_up(api, tensor.data, attributes));
  if (is_device_memory(attributes, device)) return {};
  return {StatusCode::DeviceMismatch, "points to " + place_of(attributes) +
                                          ", expected memory of device " + std::to_string(device)};
}

Status check_pointers(const cuda::Api& api, const Program& program) {
  for (const Program::Item& item : program.items()) {
    for (const NamedTensor& operand : operands_of(item)) {
      const Status status = check_pointer(api, operand.tensor, program.device_index());
      if (status.ok()) continue;
      return {status.code(), operand.name + " of " + name_of(item) + " " + status.message()};
    }
  }
  return {};
}

}  // namespace ai::detail
