#include "tensor_desc.hpp"

#include <nanobind/stl/string.h>

#include "ai/activation.hpp"
#include "status.hpp"

namespace ge_python {
namespace {

std::int64_t extent_of(nb::handle value, const char* name) {
  if (PyIndex_Check(value.ptr()) == 0) {
    throw nb::type_error((std::string(name) + " holds an object of type " +
                          Py_TYPE(value.ptr())->tp_name + ", expected integers")
                             .c_str());
  }
  nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const long long extent = PyLong_AsLongLong(index.ptr());
  if (extent != -1 || PyErr_Occurred() == nullptr) return extent;
  PyErr_Clear();
  raise(ai::StatusCode::Invalid,
        std::string(name) + " has " + nb::repr(index).c_str() + ", expected integers of 64 bits");
}

ai::Extents compact(const ai::Extents& shape, ai::Layout layout) {
  ai::Extents stride = shape;
  std::uint64_t next = 1;  // unsigned: absurd extents wrap, and the plan's rules refuse them
  for (int i = 0; i < shape.rank(); ++i) {
    const int axis = layout == ai::Layout::RowMajor ? shape.rank() - 1 - i : i;
    stride[axis] = static_cast<std::int64_t>(next);
    next *= static_cast<std::uint64_t>(shape[axis]);
  }
  return stride;
}

ai::TensorDesc make_desc(ai::DType dtype, ai::Layout layout, nb::handle shape, nb::handle stride) {
  ai::TensorDesc desc{dtype, layout, extents_of(shape, "shape"), {}};
  desc.stride = stride.is_none() ? compact(desc.shape, layout) : extents_of(stride, "stride");
  if (desc.stride.rank() != desc.shape.rank()) {
    raise(ai::StatusCode::StrideMismatch, "stride has " + std::to_string(desc.stride.rank()) +
                                              " entries, expected " +
                                              std::to_string(desc.shape.rank()) + " as shape has");
  }
  return desc;
}

}  // namespace

ai::Extents extents_of(nb::handle values, const char* name) {
  nb::object sequence = nb::steal(
      PySequence_Fast(values.ptr(), (std::string(name) + " is no sequence of integers").c_str()));
  if (!sequence.is_valid()) throw nb::python_error();
  // A list may change while __index__ runs.
  const nb::tuple items(sequence);
  const auto count = static_cast<Py_ssize_t>(items.size());
  if (count > ai::Extents::kMaxRank) {
    raise(ai::StatusCode::ShapeMismatch,
          std::string(name) + " has " + std::to_string(count) + " entries, expected at most 4");
  }
  std::array<std::int64_t, ai::Extents::kMaxRank> v{};
  for (Py_ssize_t i = 0; i < count; ++i) {
    v[static_cast<std::size_t>(i)] = extent_of(PyTuple_GET_ITEM(items.ptr(), i), name);
  }
  return leading(v, static_cast<int>(count));
}

ai::Extents leading(const std::array<std::int64_t, ai::Extents::kMaxRank>& values, int rank) {
  switch (rank) {
    case 0: return {};
    case 1: return {values[0]};
    case 2: return {values[0], values[1]};
    case 3: return {values[0], values[1], values[2]};
    default: return {values[0], values[1], values[2], values[3]};
  }
}

nb::tuple tuple_of(const ai::Extents& extents) {
  nb::list values;
  for (int i = 0; i < extents.rank(); ++i) values.append(extents[i]);
  return nb::tuple(values);
}

std::string text_of(const ai::TensorDesc& desc) {
  return std::string("dtype=") + ai::to_string(desc.dtype) +
         ", layout=" + ai::to_string(desc.layout) +
         ", shape=" + nb::repr(tuple_of(desc.shape)).c_str() +
         ", stride=" + nb::repr(tuple_of(desc.stride)).c_str();
}

void bind_enums(nb::module_& module) {
  nb::enum_<ai::ActKind> act(module, "ActKind", "Elementwise functions.");
  act.value("None_", ai::ActKind::None);
  for (int i = 1; i <= static_cast<int>(ai::ActKind::Tanh); ++i) {
    const auto kind = static_cast<ai::ActKind>(i);
    act.value(ai::to_string(kind), kind);
  }
  nb::enum_<ai::Device>(module, "Device", "Where memory is.")
      .value("CPU", ai::Device::CPU)
      .value("CUDA", ai::Device::CUDA)
      .export_values();
  nb::enum_<ai::DType>(module, "DType", "The type of an element.")
      .value("F32", ai::DType::F32)
      .value("F16", ai::DType::F16)
      .value("BF16", ai::DType::BF16)
      .value("I32", ai::DType::I32)
      .value("I8", ai::DType::I8)
      .export_values();
  nb::enum_<ai::Layout>(module, "Layout", "Which index runs along memory.")
      .value("RowMajor", ai::Layout::RowMajor)
      .value("ColMajor", ai::Layout::ColMajor)
      .export_values();
}

void bind_desc(nb::module_& module) {
  nb::class_<ai::TensorDesc>(module, "TensorDesc",
                             "How elements lie in memory; immutable. `stride` counts elements.")
      .def(
          "__init__",
          [](ai::TensorDesc* self, ai::DType dtype, ai::Layout layout, nb::object shape,
             nb::object stride) {
            new (self) ai::TensorDesc(make_desc(dtype, layout, shape, stride));
          },
          nb::arg("dtype").noconvert() = ai::DType::F32,
          nb::arg("layout").noconvert() = ai::Layout::RowMajor, nb::arg("shape") = nb::make_tuple(),
          nb::arg("stride") = nb::none(),
          nb::sig("def __init__(self, dtype: DType = F32, layout: Layout = RowMajor, "
                  "shape: collections.abc.Sequence[int] = (), "
                  "stride: collections.abc.Sequence[int] | None = None) -> None"),
          "At most four extents; without `stride` the elements lie next to each other.")
      .def_ro("dtype", &ai::TensorDesc::dtype, "The element type.")
      .def_ro("layout", &ai::TensorDesc::layout, "Which index runs along memory.")
      .def_prop_ro(
          "shape", [](const ai::TensorDesc& desc) { return tuple_of(desc.shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "The extents.")
      .def_prop_ro(
          "stride", [](const ai::TensorDesc& desc) { return tuple_of(desc.stride); },
          nb::sig("def stride(self) -> tuple[int, ...]"), "Elements between neighbours.")
      .def("__repr__",
           [](const ai::TensorDesc& desc) { return "TensorDesc(" + text_of(desc) + ")"; });
}

}  // namespace ge_python
