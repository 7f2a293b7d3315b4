#include "core/program_rules.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace ai::program_rules {
namespace {

/// Far above any memory, far below where sums of such sizes overflow.
constexpr std::int64_t kLargestTemporary = std::int64_t{1} << 48;

std::string place_text(Device device, int index) {
  return text(to_string(device), ":", index);
}

/// The bytes from the first to the last element, false where they do not fit 64-bit addresses.
bool span_fits(const Tensor& tensor) {
  const TensorDesc& desc = tensor.desc;
  const bool is_matrix = desc.shape.rank() == 2;
  std::int64_t bytes = 0;
  std::uintptr_t end = 0;
  return !__builtin_mul_overflow(desc.shape[0] - 1, desc.stride[0], &bytes) &&
         !__builtin_add_overflow(bytes, is_matrix ? desc.shape[1] : 1, &bytes) &&
         !__builtin_mul_overflow(bytes, static_cast<std::int64_t>(size_of(desc.dtype)), &bytes) &&
         !__builtin_add_overflow(reinterpret_cast<std::uintptr_t>(tensor.data),
                                 static_cast<std::uintptr_t>(bytes), &end);
}

Status strides(const Operand& operand) {
  const TensorDesc& desc = operand.tensor->desc;
  const Extents& shape = desc.shape;
  const Extents& stride = desc.stride;
  const auto wrong = [&](const char* wanted) {
    return Status(StatusCode::StrideMismatch, text(operand.name, " is ", shape, " with strides ",
                                                   stride, ", expected ", wanted));
  };
  if (stride.rank() != shape.rank()) return wrong("one stride an extent");
  if (shape.rank() == 2 && shape[1] > 1 && stride[1] != 1) return wrong("packed rows");
  const std::int64_t width = shape.rank() == 2 ? shape[1] : 1;
  if (shape[0] > 1 && stride[0] < width) return wrong("rows that do not overlap");
  return {};
}

}  // namespace

Status described(const Operand& operand) {
  const Tensor& tensor = *operand.tensor;
  const Extents& shape = tensor.desc.shape;
  if (shape.rank() != 1 && shape.rank() != 2) {
    return {StatusCode::ShapeMismatch,
            text(operand.name, " is ", shape, " of rank ", shape.rank(), ", expected rank 1 or 2")};
  }
  const std::size_t size = size_of(tensor.desc.dtype);
  if (size == 0) {
    return {StatusCode::Invalid, text(operand.name, " has dtype ",
                                      static_cast<int>(tensor.desc.dtype), ", expected a DType")};
  }
  if (tensor.desc.layout != Layout::RowMajor) {
    return {StatusCode::LayoutMismatch,
            text(operand.name, " is ", to_string(tensor.desc.layout), ", expected RowMajor")};
  }
  if (shape[0] < 0 || shape[1] < 0) {
    return {StatusCode::Invalid,
            text(operand.name, " is ", shape, ", expected no negative extent")};
  }
  if (shape[0] == 0 || (shape.rank() == 2 && shape[1] == 0)) return {};
  AI_RETURN_IF_ERROR(strides(operand));
  if (!span_fits(tensor)) {
    return {StatusCode::Invalid, text(operand.name, " is ", shape, " with strides ",
                                      tensor.desc.stride, ", expected its bytes to fit 64 bits")};
  }
  if (tensor.data == nullptr) {
    return {StatusCode::Invalid,
            text(operand.name, " is null, expected memory because it is ", shape)};
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % size != 0) {
    return {StatusCode::Invalid,
            text(operand.name, " is at ", static_cast<const void*>(tensor.data),
                 ", expected a multiple of ", static_cast<std::int64_t>(size))};
  }
  return {};
}

std::vector<Operand> operands_of(const UserStep& step) {
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < step.reads.size(); ++i) {
    operands.push_back({text("reads[", static_cast<std::int64_t>(i), "] of step ", step.name),
                        &step.reads[i], true, false});
  }
  for (std::size_t i = 0; i < step.writes.size(); ++i) {
    operands.push_back({text("writes[", static_cast<std::int64_t>(i), "] of step ", step.name),
                        &step.writes[i], false, true});
  }
  return operands;
}

Status well_formed(const UserStep& step) {
  if (step.name.empty()) return {StatusCode::Invalid, "a user step has no name, expected one"};
  if (!step.cuda && !step.host) {
    return {StatusCode::Invalid,
            text("step ", step.name, " has no function, expected cuda, host or both")};
  }
  if (step.reads.empty() && step.writes.empty()) {
    return {StatusCode::Invalid, text("step ", step.name,
                                      " reads and writes nothing, expected the memory "
                                      "that fixes its place among the other items")};
  }
  for (const Operand& operand : operands_of(step)) AI_RETURN_IF_ERROR(described(operand));
  return {};
}

std::vector<Operand> operands_of(const CopyStep& copy) {
  const char* const name = copy.in ? "copy_in" : "copy_out";
  const char* const from = copy.in ? "host" : "device";
  const char* const to = copy.in ? "device" : "host";
  return {{text(from, " of ", name), &copy.from, true, false},
          {text(to, " of ", name), &copy.to, false, true}};
}

Status well_formed(const CopyStep& copy) {
  const std::vector<Operand> operands = operands_of(copy);
  for (const Operand& operand : operands) AI_RETURN_IF_ERROR(described(operand));
  const Operand& host = operands[copy.in ? 0 : 1];
  const Operand& device = operands[copy.in ? 1 : 0];
  const TensorDesc& given = device.tensor->desc;
  const TensorDesc& wanted = host.tensor->desc;
  if (host.tensor->device != Device::CPU) {
    return {StatusCode::DeviceMismatch,
            text(host.name, " is on ", place_text(host.tensor->device, host.tensor->device_index),
                 ", expected CPU")};
  }
  if (given.dtype != wanted.dtype) {
    return {StatusCode::DtypeMismatch, text(device.name, " is ", to_string(given.dtype),
                                            ", expected ", to_string(wanted.dtype), " as host")};
  }
  if (given.shape != wanted.shape) {
    return {StatusCode::ShapeMismatch,
            text(device.name, " is ", given.shape, ", expected ", wanted.shape, " as host")};
  }
  if (symbolic::is_symbolic(host.tensor->data)) {
    return {StatusCode::Invalid,
            text(host.name, " is a temporary, expected memory of the caller's")};
  }
  const MemoryRange from = range_of(copy.from);
  const MemoryRange to = range_of(copy.to);
  if (!overlaps(from, to)) return {};
  const auto place = [](const Operand& operand) {
    return text(operand.tensor->desc.shape, " with strides ", operand.tensor->desc.stride, " at ",
                static_cast<const void*>(operand.tensor->data));
  };
  return {StatusCode::Overlap,
          text(device.name, " overlaps host: ", place(device), ", ", place(host))};
}

Status one_device(const std::vector<Operand>& operands, Device device, int index) {
  for (const Operand& operand : operands) {
    const Tensor& tensor = *operand.tensor;
    if (tensor.device == device && tensor.device_index == index) continue;
    return {StatusCode::DeviceMismatch,
            text(operand.name, " is on ", place_text(tensor.device, tensor.device_index),
                 ", expected ", place_text(device, index), " as the program's first item")};
  }
  return {};
}

Status temporaries_in_order(const std::vector<Operand>& operands,
                            const std::vector<Tensor>& temporaries,
                            const std::vector<MemoryRange>& written) {
  for (const Operand& operand : operands) {
    const MemoryRange range = range_of(*operand.tensor);
    if (range.empty() || !symbolic::is_symbolic(operand.tensor->data)) continue;
    const bool is_ours = std::any_of(temporaries.begin(), temporaries.end(), [&](const Tensor& t) {
      const MemoryRange whole = range_of(t);
      return range.begin >= whole.begin && range.end() <= whole.end();
    });
    if (!is_ours) {
      return {StatusCode::Invalid,
              text(operand.name, " is at ", static_cast<const void*>(operand.tensor->data),
                   ", not within a temporary of this program")};
    }
    const bool is_written =
        std::any_of(written.begin(), written.end(),
                    [&](const MemoryRange& earlier) { return overlaps(earlier, range); });
    if (operand.is_read && !is_written) {
      return {StatusCode::Invalid,
              text(operand.name,
                   " is a temporary that is read before any item has written it, "
                   "expected an earlier item to write it")};
    }
  }
  return {};
}

Status temporary(const TensorDesc& desc) {
  const Extents& shape = desc.shape;
  if (shape.rank() != 1 && shape.rank() != 2) {
    return {StatusCode::ShapeMismatch, text("a temporary is ", shape, " of rank ", shape.rank(),
                                            ", expected {count} or {rows, cols}")};
  }
  const auto size = static_cast<std::int64_t>(size_of(desc.dtype));
  if (size == 0) {
    return {StatusCode::Invalid,
            text("a temporary has dtype ", static_cast<int>(desc.dtype), ", expected a DType")};
  }
  if (desc.layout != Layout::RowMajor) {
    return {StatusCode::LayoutMismatch,
            text("a temporary is ", to_string(desc.layout), ", expected RowMajor")};
  }
  if (shape[0] < 0 || shape[1] < 0) {
    return {StatusCode::Invalid, text("a temporary is ", shape, ", expected no negative extent")};
  }
  std::int64_t bytes = 0;
  const std::int64_t cols = shape.rank() == 2 ? shape[1] : 1;
  if (__builtin_mul_overflow(shape[0], cols, &bytes) ||
      __builtin_mul_overflow(bytes, size, &bytes) || bytes > kLargestTemporary) {
    return {StatusCode::OutOfMemory,
            text("a temporary is ", shape, ", expected at most ", kLargestTemporary, " bytes")};
  }
  return {};
}

}  // namespace ai::program_rules
