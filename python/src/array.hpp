#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "ai/tensor.hpp"

namespace ge_python {

namespace nb = nanobind;

/// For how long the memory behind an object is needed.
enum class Hold {
  Call,  ///< during this call, whose caller holds the object; Array::owner is what it lends
  Keep,  ///< longer: Array::owner is what keeps the memory alive
};

/// Memory as an object describes it; strides in elements. Nothing is checked against what a GEMM
/// takes.
struct Array {
  static constexpr int kMaxRank = ai::Extents::kMaxRank;

  void* data = nullptr;
  ai::Device device = ai::Device::CPU;
  int device_index = 0;
  std::optional<ai::DType> dtype;  ///< none: one the library has no name for
  std::string dtype_name;          ///< set where `dtype` is not: "float64", ...
  int rank = 0;                    ///< may be above kMaxRank: `shape` and `stride` hold the first
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> stride{};
  bool read_only = false;
  nb::object owner;  ///< to be held as long as the memory is used; may be null for Hold::Call
};

/// What `object` says of its memory, without copying or synchronising: by DLPack's table of C
/// functions on its type (torch), the buffer protocol (NumPy), __dlpack__ (stream = -1: the caller
/// orders the work) or __cuda_array_interface__. TypeError naming `operand` where it has none of
/// them; DeviceMismatch for memory that is neither host nor CUDA memory.
[[nodiscard]] Array array_of(nb::handle object, const char* operand, Hold hold);

}  // namespace ge_python
