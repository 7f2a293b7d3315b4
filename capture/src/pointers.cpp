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

Status check(const cuda::Api& api, const Program::Item& item, const NamedTensor& operand,
             int device) {
  const Tensor& tensor = operand.tensor;
  if (range_of(tensor).empty() || symbolic::is_symbolic(tensor.data)) return {};
  cudaPointerAttributes attributes{};
  Status status = cuda::to_status(api, api.pointer_get_attributes(&attributes, tensor.data),
                                  "cudaPointerGetAttributes");
  if (!status.ok()) {
    return {status.code(), operand.name + " of " + name_of(item) + ": " + status.message()};
  }
  const bool reachable =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  if (reachable && attributes.device == device) return {};
  return {StatusCode::DeviceMismatch, operand.name + " of " + name_of(item) + " points to " +
                                          place_of(attributes) + ", expected memory of device " +
                                          std::to_string(device)};
}

}  // namespace

Status check_pointers(const cuda::Api& api, const Program& program) {
  for (const Program::Item& item : program.items()) {
    for (const NamedTensor& operand : operands_of(item)) {
      AI_RETURN_IF_ERROR(check(api, item, operand, program.device_index()));
    }
  }
  return {};
}

}  // namespace ai::detail
