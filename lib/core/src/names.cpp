#include <new>

#include "ai/activation.hpp"
#include "ai/gemm.hpp"
#include "ai/status.hpp"
#include "ai/tensor.hpp"

namespace ai {

const char* to_string(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::Ok: return "Ok";
    case StatusCode::Invalid: return "Invalid";
    case StatusCode::Unsupported: return "Unsupported";
    case StatusCode::MissingInput: return "MissingInput";
    case StatusCode::MissingOutput: return "MissingOutput";
    case StatusCode::DeviceMismatch: return "DeviceMismatch";
    case StatusCode::DtypeMismatch: return "DtypeMismatch";
    case StatusCode::LayoutMismatch: return "LayoutMismatch";
    case StatusCode::ShapeMismatch: return "ShapeMismatch";
    case StatusCode::StrideMismatch: return "StrideMismatch";
    case StatusCode::Overlap: return "Overlap";
    case StatusCode::OutOfMemory: return "OutOfMemory";
    case StatusCode::CaptureActive: return "CaptureActive";
    case StatusCode::CaptureInvalidated: return "CaptureInvalidated";
    case StatusCode::CudaError: return "CudaError";
  }
  return "unknown";
}

Status::Status(const Status& other) noexcept : code_(other.code_) {
  try {
    message_ = other.message_;
  } catch (const std::bad_alloc&) {
    message_.clear();
  }
}

Status& Status::operator=(const Status& other) noexcept {
  if (this != &other) *this = Status(other);
  return *this;
}

std::string Status::to_string() const {
  std::string text = ai::to_string(code_);
  if (!message_.empty()) text += ": " + message_;
  return text;
}

const char* to_string(Device device) noexcept {
  return device == Device::CPU ? "CPU" : "CUDA";
}

const char* to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::F32: return "F32";
    case DType::F16: return "F16";
    case DType::BF16: return "BF16";
    case DType::I32: return "I32";
    case DType::I8: return "I8";
  }
  return "unknown";
}

const char* to_string(Layout layout) noexcept {
  return layout == Layout::RowMajor ? "RowMajor" : "ColMajor";
}

std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::F32:
    case DType::I32: return 4;
    case DType::F16:
    case DType::BF16: return 2;
    case DType::I8: return 1;
  }
  return 0;
}

const char* to_string(BiasKind kind) noexcept {
  switch (kind) {
    case BiasKind::None: return "None";
    case BiasKind::Scalar: return "Scalar";
    case BiasKind::PerN: return "PerN";
    case BiasKind::PerM: return "PerM";
  }
  return "unknown";
}

const char* to_string(ActKind kind) noexcept {
  switch (kind) {
    case ActKind::None: return "None";
    case ActKind::ReLU: return "ReLU";
    case ActKind::LeakyReLU: return "LeakyReLU";
    case ActKind::ELU: return "ELU";
    case ActKind::GELU: return "GELU";
    case ActKind::GELUTanh: return "GELUTanh";
    case ActKind::SiLU: return "SiLU";
    case ActKind::Sigmoid: return "Sigmoid";
    case ActKind::Tanh: return "Tanh";
  }
  return "unknown";
}

Tensor make_tensor_2d(const void* data, Extents shape, DType dtype, Device device, int device_index,
                      std::int64_t ld) noexcept {
  TensorDesc desc;
  desc.dtype = dtype;
  desc.shape = shape;
  desc.stride = {ld == 0 ? shape[1] : ld, 1};
  return {const_cast<void*>(data), desc, device, device_index};  // written only as an output
}

Tensor make_tensor_1d(const void* data, std::int64_t count, DType dtype, Device device,
                      int device_index, std::int64_t stride) noexcept {
  TensorDesc desc;
  desc.dtype = dtype;
  desc.shape = {count};
  desc.stride = {stride};
  return {const_cast<void*>(data), desc, device, device_index};
}

}  // namespace ai
