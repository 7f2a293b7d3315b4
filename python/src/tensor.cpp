#include "tensor.hpp"

#include <nanobind/stl/string.h>

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "operand.hpp"
#include "pointer.hpp"
#include "status.hpp"
#include "tensor_desc.hpp"
#include "tensor_export.hpp"

namespace ge_python {
namespace {

PyTypeObject* tensor_type = nullptr;

// Cyclic garbage ----------------------------------------------------------------------------------

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  Py_VISIT(tensor.owner.ptr());
  Py_VISIT(tensor.memory.ptr());
  return 0;
}

int clear(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  tensor.owner.reset();
  tensor.memory.reset();
  return 0;
}

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {0, nullptr}};

std::string shown(const Tensor& given) {
  const ai::Tensor& tensor = given.tensor;
  const nb::object address =
      nb::module_::import_("builtins").attr("hex")(reinterpret_cast<std::uintptr_t>(tensor.data));
  return std::string("Tensor(") + nb::str(address).c_str() + ", " + text_of(tensor.desc) +
         ", device=" + ai::to_string(tensor.device) + ":" + std::to_string(tensor.device_index) +
         (given.read_only ? ", read-only)" : ")");
}

// Functions ---------------------------------------------------------------------------------------

std::int64_t leading_dimension(const Tensor& given) {
  const ai::TensorDesc& desc = given.tensor.desc;
  if (desc.shape.rank() != 2) {
    throw nb::attribute_error(("the tensor has rank " + std::to_string(desc.shape.rank()) +
                               ", a leading dimension needs rank 2")
                                  .c_str());
  }
  return desc.stride[desc.layout == ai::Layout::RowMajor ? 0 : 1];
}

Tensor make_tensor_2d(nb::handle ptr, nb::handle shape, ai::DType dtype, ai::Device device,
                      int device_index, std::int64_t ld) {
  const auto* data = reinterpret_cast<const void*>(pointer_of(ptr, "ptr"));
  const ai::Extents extents = extents_of(shape, "shape");
  if (extents.rank() != 2) {
    raise(ai::StatusCode::ShapeMismatch,
          "shape has " + std::to_string(extents.rank()) + " entries, expected 2: rows and columns");
  }
  return {.tensor = ai::make_tensor_2d(data, extents, dtype, device, device_index, ld)};
}

Tensor make_tensor_1d(nb::handle ptr, std::int64_t count, ai::DType dtype, ai::Device device,
                      int device_index, std::int64_t stride) {
  const auto* data = reinterpret_cast<const void*>(pointer_of(ptr, "ptr"));
  return {.tensor = ai::make_tensor_1d(data, count, dtype, device, device_index, stride)};
}

void bind_type(nb::module_& module) {
  nb::class_<Tensor> type(module, "Tensor", nb::type_slots(slots), nb::is_weak_referenceable(),
                          "Borrowed memory and its description. Immutable; a Tensor made of an "
                          "address borrows memory that the caller keeps alive, one made by "
                          "as_tensor holds the object that owns it.");
  tensor_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  type.attr("__graph_executor_build__") = module.attr("build_id");
  type.def(
          "__init__",
          [](Tensor* self, nb::object data, const ai::TensorDesc& desc, ai::Device device,
             int device_index, nb::object owner) {
            const auto address = pointer_of(data, "data");
            new (self)
                Tensor{.tensor = {reinterpret_cast<void*>(address), desc, device, device_index},
                       .owner = owner.is_none() ? nb::object() : std::move(owner)};
          },
          nb::arg("data"), nb::arg("desc"), nb::arg("device").noconvert() = ai::Device::CUDA,
          nb::arg("device_index") = 0, nb::arg("owner") = nb::none(),
          nb::sig("def __init__(self, data: int, desc: TensorDesc, device: Device = CUDA, "
                  "device_index: int = 0, owner: object | None = None) -> None"),
          "The memory at address `data`, which `owner` (if any) keeps alive.")
      .def_prop_ro(
          "data",
          [](const Tensor& self) { return reinterpret_cast<std::uintptr_t>(self.tensor.data); },
          "The address; a placeholder for a program's temporary.")
      .def_prop_ro(
          "desc", [](const Tensor& self) { return self.tensor.desc; }, nb::rv_policy::move,
          "How the elements lie.")
      .def_prop_ro(
          "device", [](const Tensor& self) { return self.tensor.device; }, "Where the memory is.")
      .def_prop_ro(
          "device_index", [](const Tensor& self) { return self.tensor.device_index; },
          "Which CUDA device.")
      .def_prop_ro(
          "dtype", [](const Tensor& self) { return self.tensor.desc.dtype; }, "The element type.")
      .def_prop_ro(
          "shape", [](const Tensor& self) { return tuple_of(self.tensor.desc.shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "The extents.")
      .def_prop_ro(
          "stride", [](const Tensor& self) { return tuple_of(self.tensor.desc.stride); },
          nb::sig("def stride(self) -> tuple[int, ...]"), "Elements between neighbours.")
      .def_prop_ro(
          "ld", leading_dimension,
          "The leading dimension of a matrix, in elements. AttributeError for other ranks.")
      .def_prop_ro(
          "owner",
          [](const Tensor& self) {
            return self.owner.is_valid() ? self.owner : nb::object(nb::none());
          },
          nb::sig("def owner(self) -> object | None"), "The object whose memory this is, if any.")
      .def_ro("read_only", &Tensor::read_only, "Whether it is refused as an output.")
      .def("__repr__", [](const Tensor& self) { return shown(self); });
}

void bind_exports(nb::module_& module) {
  nb::borrow<nb::class_<Tensor>>(module.attr("Tensor"))
      .def(
          "numpy", [](nb::handle_t<Tensor> self) { return numpy_view(self); },
          nb::sig("def numpy(self) -> numpy.typing.NDArray[typing.Any]"),
          "The same memory as a NumPy array, without a copy. DeviceMismatch for CUDA memory.")
      .def_prop_ro(
          "__array_interface__",
          [](const Tensor& self) { return array_interface(self, ai::Device::CPU); },
          nb::sig("def __array_interface__(self) -> dict[str, typing.Any]"),
          "Host memory for NumPy.")
      .def_prop_ro(
          "__cuda_array_interface__",
          [](const Tensor& self) { return array_interface(self, ai::Device::CUDA); },
          nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"),
          "CUDA memory for CuPy, torch and others. They order their work themselves.")
      .def(
          "__dlpack__",
          [](nb::handle_t<Tensor> self, nb::handle stream, nb::handle max_version,
             nb::handle dl_device, nb::handle copy) {
            return dlpack_capsule(self, stream, max_version, dl_device, copy);
          },
          nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
          nb::sig("def __dlpack__(self, stream: object | None = None, "
                  "max_version: tuple[int, int] | None = None, "
                  "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> "
                  "typing_extensions.CapsuleType"),
          "The same memory for DLPack. Nothing is synchronised: the caller orders the work.")
      .def(
          "__dlpack_device__", [](const Tensor& self) { return dlpack_device(self); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"),
          "DLPack's device type (1 host, 2 CUDA) and index.");
}

void bind_makers(nb::module_& module) {
  module.def("make_tensor_2d", make_tensor_2d, nb::arg("ptr"), nb::arg("shape"),
             nb::arg("dtype").noconvert() = ai::DType::F32,
             nb::arg("device").noconvert() = ai::Device::CUDA, nb::arg("device_index") = 0,
             nb::arg("ld") = 0,
             nb::sig("def make_tensor_2d(ptr: int, shape: collections.abc.Sequence[int], "
                     "dtype: DType = F32, device: Device = CUDA, "
                     "device_index: int = 0, ld: int = 0) -> Tensor"),
             "A row-major matrix of `shape` = (rows, columns) at address `ptr`, row r starting at "
             "element r * ld; ld = 0 means columns. The memory is the caller's to keep alive. "
             "Calls check the rest, and name the operand.");
  module.def("make_tensor_1d", make_tensor_1d, nb::arg("ptr"), nb::arg("count"),
             nb::arg("dtype").noconvert() = ai::DType::F32,
             nb::arg("device").noconvert() = ai::Device::CUDA, nb::arg("device_index") = 0,
             nb::arg("stride") = 1,
             nb::sig("def make_tensor_1d(ptr: int, count: int, dtype: DType = F32, "
                     "device: Device = CUDA, device_index: int = 0, stride: int = 1) -> "
                     "Tensor"),
             "A vector of `count` elements at address `ptr`, `stride` elements apart.");
  module.def(
      "as_tensor", [](nb::handle object) { return as_tensor(object, "object"); },
      nb::arg("object").none(), nb::sig("def as_tensor(object: object) -> Tensor"),
      "The memory of an array (torch, CuPy, NumPy, DLPack, __cuda_array_interface__) as a "
      "Tensor that keeps it alive, without a copy: the same argument as the array itself, "
      "but quicker, for repeated calls. It keeps the memory that the array has now: what is "
      "assigned to a torch tensor's .data later is not followed, and resize_ in place must "
      "not be used. Autograd sees no write. At most 4 dimensions; ShapeMismatch, "
      "DtypeMismatch, DeviceMismatch or StrideMismatch for what no call can take, TypeError "
      "for what is no array.");
}

}  // namespace

void Tensor::release(nb::object& owner) noexcept {
  constexpr int kDeepest = 50;
  static thread_local int depth = 0;
  static thread_local std::vector<nb::object> waiting;
  if (depth == kDeepest) {
    try {
      waiting.push_back(owner);
      owner.reset();
      return;
    } catch (const std::bad_alloc&) {  // then it nests on
    }
  }
  ++depth;
  owner.reset();
  while (depth == 1 && !waiting.empty()) {
    nb::object next = std::move(waiting.back());
    waiting.pop_back();
    next.reset();
  }
  --depth;
}

const Tensor* tensor_in(nb::handle object) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  if (type != tensor_type && PyType_IsSubtype(type, tensor_type) == 0) return nullptr;
  if (!nb::inst_ready(object)) throw nb::type_error("a Tensor whose __init__ was not called");
  return nb::inst_ptr<Tensor>(object);
}

nb::object as_tensor(nb::handle object, const char* name) {
  if (tensor_in(object) != nullptr) return nb::borrow<nb::object>(object);
  Operand operand = step_operand(object, name, Use::Read, Hold::Keep);
  return nb::cast(Tensor{.tensor = operand.tensor,
                         .owner = nb::borrow<nb::object>(object),
                         .memory = std::move(operand.owner),
                         .read_only = operand.read_only});
}

void bind_tensor(nb::module_& module) {
  bind_enums(module);
  bind_desc(module);
  bind_type(module);
  bind_exports(module);
  bind_makers(module);
}

}  // namespace ge_python
