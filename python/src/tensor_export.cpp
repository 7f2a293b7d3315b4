#include "tensor_export.hpp"

#include <array>
#include <climits>
#include <memory>
#include <string>

#include "ai/memory.hpp"
#include "dlpack.hpp"
#include "gil.hpp"
#include "status.hpp"
#include "tensor_desc.hpp"

namespace ge_python {
namespace {

const char* typestr_of(ai::DType dtype) {
  switch (dtype) {
    case ai::DType::F32: return "<f4";
    case ai::DType::F16: return "<f2";
    case ai::DType::I32: return "<i4";
    case ai::DType::I8: return "|i1";
    case ai::DType::BF16: break;
  }
  return nullptr;
}

nb::tuple byte_strides_of(const ai::TensorDesc& desc) {
  const auto size = static_cast<std::int64_t>(ai::size_of(desc.dtype));
  nb::list values;
  for (int i = 0; i < desc.stride.rank(); ++i) {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(desc.stride[i], size, &bytes)) {
      raise(ai::StatusCode::Invalid, "the tensor has a stride of " +
                                         std::to_string(desc.stride[i]) +
                                         " elements, expected its bytes to fit 64 bits");
    }
    values.append(bytes);
  }
  return nb::tuple(values);
}

bool is_empty(const ai::Extents& shape) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return true;
  }
  return false;
}

/// Others would touch this memory.
void check_memory(const ai::Tensor& tensor) {
  if (ai::symbolic::is_symbolic(tensor.data)) {
    raise(ai::StatusCode::Invalid,
          "the tensor is a temporary of a program, which has memory only while an executable runs");
  }
  if (tensor.data == nullptr && !is_empty(tensor.desc.shape)) {
    raise(ai::StatusCode::Invalid, "the tensor is null, expected memory because it has elements");
  }
}

// DLPack ------------------------------------------------------------------------------------------

dlpack::Device device_of(const ai::Tensor& tensor) {
  return {tensor.device == ai::Device::CUDA ? dlpack::kCuda : dlpack::kCpu,
          tensor.device == ai::Device::CUDA ? tensor.device_index : 0};
}

dlpack::DataType type_of(ai::DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * ai::size_of(dtype));
  switch (dtype) {
    case ai::DType::BF16: return {dlpack::kBfloat, bits, 1};
    case ai::DType::I32:
    case ai::DType::I8: return {dlpack::kInt, bits, 1};
    case ai::DType::F32:
    case ai::DType::F16: break;
  }
  return {dlpack::kFloat, bits, 1};
}

/// One export: `managed` points back to it, and it holds the Tensor.
template <typename Managed>
struct Export {
  Managed managed{};
  std::array<std::int64_t, ai::Extents::kMaxRank> shape{};
  std::array<std::int64_t, ai::Extents::kMaxRank> strides{};
  PyObject* tensor = nullptr;

  /// Called by any thread, also one without the GIL, and also after Python has ended.
  static void free(Managed* managed) {
    std::unique_ptr<Export> own(static_cast<Export*>(managed->context));
    if (python_is_ending() && (Py_IsInitialized() == 0 || PyGILState_Check() == 0)) return;
    const WithGil locked;
    Py_DECREF(own->tensor);
  }

  static void free_capsule(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, Managed::kName) == 0) return;  // consumed
    free(static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName)));
  }
};

template <typename Managed>
nb::object export_of(nb::handle self, const Tensor& given) {
  const ai::Tensor& tensor = given.tensor;
  auto made = std::make_unique<Export<Managed>>();
  for (int i = 0; i < tensor.desc.shape.rank(); ++i) {
    made->shape[static_cast<std::size_t>(i)] = tensor.desc.shape[i];
    made->strides[static_cast<std::size_t>(i)] = tensor.desc.stride[i];
  }
  Managed& managed = made->managed;
  managed.tensor = {tensor.data,
                    device_of(tensor),
                    tensor.desc.shape.rank(),
                    type_of(tensor.desc.dtype),
                    made->shape.data(),
                    made->strides.data(),
                    0};
  managed.context = made.get();
  managed.deleter = Export<Managed>::free;
  if constexpr (std::is_same_v<Managed, dlpack::ManagedVersioned>) {
    managed.version = {1, 0};
    managed.flags = given.read_only ? std::uint64_t{dlpack::kReadOnly} : 0;
  }
  nb::object capsule =
      nb::steal(PyCapsule_New(&managed, Managed::kName, Export<Managed>::free_capsule));
  if (!capsule.is_valid()) throw nb::python_error();
  made->tensor = nb::borrow<nb::object>(self).release().ptr();
  (void)made.release();  // the capsule's
  return capsule;
}

/// An item of a pair of ints; LONG_MAX or LONG_MIN beyond that.
long item_of(nb::handle pair, int i, const char* name) {
  if (!PyTuple_Check(pair.ptr()) || PyTuple_GET_SIZE(pair.ptr()) != 2 ||
      PyIndex_Check(PyTuple_GET_ITEM(pair.ptr(), i)) == 0) {
    throw nb::type_error(
        (std::string(name) + " is " + nb::repr(pair).c_str() + ", expected a pair of ints")
            .c_str());
  }
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(pair.ptr(), i), &overflow);
  if (value == -1 && overflow == 0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (overflow != 0) return overflow > 0 ? LONG_MAX : LONG_MIN;
  return value;
}

bool knows_version_1(nb::handle max_version) {
  return !max_version.is_none() && item_of(max_version, 0, "max_version") >= 1;
}

void check_wishes(const Tensor& given, nb::handle dl_device, nb::handle copy) {
  const int wants_copy = PyObject_IsTrue(copy.ptr());  // None: no
  if (wants_copy < 0) throw nb::python_error();
  if (wants_copy != 0) {
    throw nb::buffer_error("a Tensor is exported without a copy, expected copy=None or False");
  }
  if (dl_device.is_none()) return;
  const dlpack::Device own = device_of(given.tensor);
  if (item_of(dl_device, 0, "dl_device") != own.type ||
      item_of(dl_device, 1, "dl_device") != own.index) {
    throw nb::buffer_error("a Tensor is exported where it is, expected its own dl_device");
  }
}

}  // namespace

nb::dict array_interface(const Tensor& given, ai::Device device) {
  const ai::Tensor& tensor = given.tensor;
  const char* typestr = typestr_of(tensor.desc.dtype);
  if (tensor.device != device || typestr == nullptr) {
    const std::string what = typestr == nullptr
                                 ? ai::to_string(tensor.desc.dtype)
                                 : std::string("memory on ") + ai::to_string(tensor.device);
    throw nb::attribute_error(("no such array interface for " + what).c_str());
  }
  check_memory(tensor);
  nb::dict said;
  said["shape"] = tuple_of(tensor.desc.shape);
  said["strides"] = byte_strides_of(tensor.desc);
  said["typestr"] = typestr;
  said["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(tensor.data), given.read_only);
  said["version"] = 3;
  return said;
}

nb::object numpy_view(nb::handle self) {
  const Tensor& given = *tensor_in(self);
  if (given.tensor.device != ai::Device::CPU) {
    raise(ai::StatusCode::DeviceMismatch,
          "the tensor is on CUDA, expected host memory: copy it, or use torch or CuPy");
  }
  if (typestr_of(given.tensor.desc.dtype) == nullptr) {
    raise(ai::StatusCode::DtypeMismatch, "the tensor is BF16, which NumPy does not have");
  }
  return nb::module_::import_("numpy").attr("asarray")(self);
}

nb::object dlpack_capsule(nb::handle self, nb::handle, nb::handle max_version, nb::handle dl_device,
                          nb::handle copy) {
  const Tensor& given = *tensor_in(self);
  check_wishes(given, dl_device, copy);
  check_memory(given.tensor);
  if (knows_version_1(max_version)) return export_of<dlpack::ManagedVersioned>(self, given);
  if (given.read_only) {
    throw nb::buffer_error("the Tensor is read-only, expected max_version=(1, 0) or later");
  }
  return export_of<dlpack::Managed>(self, given);
}

nb::tuple dlpack_device(const Tensor& given) {
  const dlpack::Device device = device_of(given.tensor);
  return nb::make_tuple(static_cast<int>(device.type), device.index);
}

}  // namespace ge_python
