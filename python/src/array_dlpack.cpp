#include <algorithm>
#include <string_view>
#include <utility>

#include "array_sources.hpp"
#include "dlpack.hpp"
#include "status.hpp"

namespace ge_python {
namespace {

// The table of types ------------------------------------------------------------------------------

/// What the types seen last offer. Holds the types, so that none is taken for a dead one's address,
/// and their tables.
struct KnownType {
  PyTypeObject* type = nullptr;
  const dlpack::ExchangeApi* api = nullptr;
  PyObject* capsule = nullptr;  ///< that of `api`
  /// Another build's Tensor: it shows its memory as others do, but a mix of builds is a mistake.
  bool is_foreign = false;
};
std::array<KnownType, 16> known_types{};
std::size_t next_known_type = 0;

const dlpack::ExchangeApi* table_in(nb::handle capsule) {
  const char* name = dlpack::ExchangeApi::kName;
  if (!capsule.is_valid() || PyCapsule_IsValid(capsule.ptr(), name) == 0) return nullptr;
  auto* api = static_cast<dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), name));
  while (api != nullptr && api->version.major != 1) api = api->previous;
  return api != nullptr && api->managed_from_object != nullptr ? api : nullptr;
}

KnownType known(PyTypeObject* type) {
  for (const KnownType& entry : known_types) {
    if (entry.type == type) return entry;
  }
  const nb::handle handle(reinterpret_cast<PyObject*>(type));
  const bool is_foreign = attribute_of(handle, "__graph_executor_build__").is_valid();
  nb::object capsule = attribute_of(handle, "__dlpack_c_exchange_api__");
  const dlpack::ExchangeApi* api = table_in(capsule);
  if (api == nullptr) capsule.reset();
  const KnownType found{type, api, capsule.release().ptr(), is_foreign};
  KnownType& place = known_types[next_known_type];
  next_known_type = (next_known_type + 1) % known_types.size();
  const KnownType old = std::exchange(place, found);
  Py_INCREF(type);
  Py_XDECREF(old.capsule);  // last: these may run Python code
  Py_XDECREF(old.type);
  return found;
}

// Reading a DLTensor ------------------------------------------------------------------------------

ai::Device device_of(const dlpack::Device& device, const char* operand) {
  switch (device.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost: return ai::Device::CPU;
    case dlpack::kCuda:
    case dlpack::kCudaManaged: return ai::Device::CUDA;
    default:
      raise(ai::StatusCode::DeviceMismatch, std::string(operand) + " is on DLPack device type " +
                                                std::to_string(device.type) +
                                                ", expected memory of the host or of CUDA");
  }
}

void set_dtype(Array& array, const dlpack::DataType& dtype) {
  if (dtype.lanes != 1) {
    array.dtype_name = "a vector type";
    return;
  }
  switch (dtype.code) {
    case dlpack::kInt: return set_dtype(array, Kind::Int, dtype.bits);
    case dlpack::kUInt: return set_dtype(array, Kind::UInt, dtype.bits);
    case dlpack::kFloat: return set_dtype(array, Kind::Float, dtype.bits);
    case dlpack::kComplex: return set_dtype(array, Kind::Complex, dtype.bits);
    case dlpack::kBool: return set_dtype(array, Kind::Bool, dtype.bits);
    default: break;
  }
  if (dtype.code == dlpack::kBfloat && dtype.bits == 16) {
    array.dtype = ai::DType::BF16;
    return;
  }
  array.dtype_name =
      "DLPack type " + std::to_string(dtype.code) + " of " + std::to_string(dtype.bits) + " bits";
}

void read(const dlpack::Tensor& tensor, const char* operand, Array& array) {
  array.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  array.device = device_of(tensor.device, operand);
  array.device_index = array.device == ai::Device::CUDA ? tensor.device.index : 0;
  array.rank = tensor.rank;
  const int rank = std::min(tensor.rank, Array::kMaxRank);
  std::copy_n(tensor.shape, rank, array.shape.begin());
  if (tensor.strides != nullptr) {
    std::copy_n(tensor.strides, rank, array.stride.begin());
  } else {
    set_compact(array);
  }
  set_dtype(array, tensor.dtype);
}

void read(const dlpack::ManagedVersioned& managed, const char* operand, Hold hold, Array& array) {
  const bool copied = (managed.flags & dlpack::kCopied) != 0;
  if (copied && hold == Hold::Call) {
    raise(ai::StatusCode::Invalid,
          std::string(operand) + " is exported as a copy, expected its own memory");
  }
  read(managed.tensor, operand, array);
  array.read_only = copied || (managed.flags & dlpack::kReadOnly) != 0;
}

// Objects -----------------------------------------------------------------------------------------

void free_managed(PyObject* capsule) {
  const char* name = dlpack::ManagedVersioned::kName;
  auto* managed = static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

nb::object capsule_of(dlpack::ManagedVersioned* managed) {
  nb::object capsule =
      nb::steal(PyCapsule_New(managed, dlpack::ManagedVersioned::kName, free_managed));
  if (!capsule.is_valid()) {
    if (managed->deleter != nullptr) managed->deleter(managed);
    throw nb::python_error();
  }
  return capsule;
}

/// torch's export holds the tensor, and `x.data = y` (as in module.to()) swaps a tensor's memory;
/// an alias keeps its own. Null where there is none.
nb::object detached(nb::handle object, const dlpack::ExchangeApi& api, const char* operand) {
  const nb::object detach = attribute_of(object, "detach");
  if (!detach.is_valid()) return {};
  nb::object alias = nb::steal(PyObject_CallNoArgs(detach.ptr()));
  if (!alias.is_valid()) refuse_because(object, operand);
  return known(Py_TYPE(alias.ptr())).api == &api ? alias : nb::object();
}

/// torch exports the imaginary part of a conjugate without the sign that it has yet to take. Only
/// such parts of complex numbers are like that, so no dimension of theirs has a stride of one.
void refuse_negated(nb::handle object, const char* operand, const Array& array) {
  const int rank = std::min(array.rank, Array::kMaxRank);
  if (std::find(array.stride.begin(), array.stride.begin() + rank, 1) !=
      array.stride.begin() + rank)
    return;
  const nb::object ask = attribute_of(object, "is_neg");
  if (!ask.is_valid()) return;
  const nb::object said = nb::steal(PyObject_CallNoArgs(ask.ptr()));
  if (!said.is_valid()) refuse_because(object, operand);
  if (said.is(Py_True)) {
    raise(ai::StatusCode::Invalid, std::string(operand) +
                                       " is a view that torch has yet to negate, expected memory "
                                       "that holds its values (resolve_neg() it)");
  }
}

nb::object call(nb::handle function, bool with_stream, bool with_version) {
  nb::dict keywords;
  if (with_stream) keywords["stream"] = -1;
  if (with_version) keywords["max_version"] = nb::make_tuple(1, 0);
  return nb::steal(PyObject_VectorcallDict(function.ptr(), nullptr, 0, keywords.ptr()));
}

bool is_jax(nb::handle object) {
  return type_name_of(object).starts_with("jax");
}

/// Whether the object wants to be told that no stream waits for it.
bool takes_stream(nb::handle object, const char* operand) {
  const nb::object ask = attribute_of(object, "__dlpack_device__");
  if (!ask.is_valid()) return true;
  const nb::object said = nb::steal(PyObject_CallNoArgs(ask.ptr()));
  if (!said.is_valid()) refuse_because(object, operand);
  if (!PyTuple_Check(said.ptr()) || PyTuple_GET_SIZE(said.ptr()) != 2) {
    refuse(object, operand, "has a __dlpack_device__ that gives no pair");
  }
  const long type = PyLong_AsLong(PyTuple_GET_ITEM(said.ptr(), 0));
  if (type == -1 && PyErr_Occurred() != nullptr) refuse_because(object, operand);
  const dlpack::Device device{static_cast<std::int32_t>(type), 0};
  // JAX takes -1 for a stream's handle; without a stream it waits for the value itself.
  return device_of(device, operand) == ai::Device::CUDA && !is_jax(object);
}

nb::object capsule_from(nb::handle object, nb::handle function, const char* operand) {
  const bool with_stream = takes_stream(object, operand);
  nb::object capsule = call(function, with_stream, true);
  if (!capsule.is_valid() && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();  // from before DLPack 1.0
    capsule = call(function, with_stream, false);
  }
  if (!capsule.is_valid()) refuse_because(object, operand);
  return capsule;
}

}  // namespace

std::optional<Array> by_exchange_table(nb::handle object, const char* operand, Hold hold) {
  const KnownType type = known(Py_TYPE(object.ptr()));
  const dlpack::ExchangeApi* const api = type.api;
  if (type.is_foreign) refuse(object, operand, "belongs to another build of this module");
  if (api == nullptr) return std::nullopt;
  std::optional<Array> array(std::in_place);
  if (hold == Hold::Call && api->tensor_from_object != nullptr) {
    dlpack::Tensor tensor;
    if (api->tensor_from_object(object.ptr(), &tensor) != 0) refuse_because(object, operand);
    read(tensor, operand, *array);
    refuse_negated(object, operand, *array);
    return array;
  }
  const nb::object alias = hold == Hold::Keep ? detached(object, *api, operand) : nb::object();
  dlpack::ManagedVersioned* managed = nullptr;
  if (api->managed_from_object(alias.is_valid() ? alias.ptr() : object.ptr(), &managed) != 0) {
    refuse_because(object, operand);
  }
  nb::object memory = capsule_of(managed);
  read(*managed, operand, hold, *array);
  refuse_negated(object, operand, *array);
  array->owner = std::move(memory);
  return array;
}

std::optional<Array> by_dlpack(nb::handle object, const char* operand, Hold hold) {
  const nb::object function = attribute_of(object, "__dlpack__");
  if (!function.is_valid()) return std::nullopt;
  nb::object capsule = capsule_from(object, function, operand);
  std::optional<Array> array(std::in_place);
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::ManagedVersioned::kName) != 0) {
    const auto* managed = static_cast<dlpack::ManagedVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), dlpack::ManagedVersioned::kName));
    if (managed->version.major != 1) {
      refuse(object, operand, "is exported by another major version of DLPack, expected 1");
    }
    read(*managed, operand, hold, *array);
  } else if (PyCapsule_IsValid(capsule.ptr(), dlpack::Managed::kName) != 0) {
    const auto* managed =
        static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::Managed::kName));
    read(managed->tensor, operand, *array);
    array->read_only = is_jax(object);  // its values never change, and nothing here says so
  } else {
    refuse(object, operand, "has a __dlpack__ that gives no DLPack capsule");
  }
  array->owner = std::move(capsule);  // not consumed: it frees itself
  return array;
}

}  // namespace ge_python
