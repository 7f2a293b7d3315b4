#pragma once

#include <cstdint>

/// The binary layout of DLPack 1.x (https://dmlc.github.io/dlpack), as far as it is used here.
namespace ge_python::dlpack {

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

struct Device {
  std::int32_t type;
  std::int32_t index;
};

enum TypeCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kOpaque = 3,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t rank;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: compact and row-major
  std::uint64_t byte_offset;
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

/// Before version 1.0.
struct Managed {
  static constexpr const char* kName = "dltensor";

  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

enum Flag : std::uint64_t { kReadOnly = 1, kCopied = 2 };

struct ManagedVersioned {
  static constexpr const char* kName = "dltensor_versioned";

  Version version;
  void* context;
  void (*deleter)(ManagedVersioned* self);
  std::uint64_t flags;
  Tensor tensor;
};

/// A type's table of C functions (DLPack 1.3): the capsule `__dlpack_c_exchange_api__` on it. They
/// return 0, or set a Python error; objects are PyObject*.
struct ExchangeApi {
  static constexpr const char* kName = "dlpack_exchange_api";

  Version version;
  ExchangeApi* previous;  ///< of an earlier major version
  int (*allocate)(Tensor* like, ManagedVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedVersioned** out);
  int (*managed_to_object)(ManagedVersioned* tensor, void** out);
  int (*tensor_from_object)(void* object, Tensor* out);  ///< may be null
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** out);
};

}  // namespace ge_python::dlpack
