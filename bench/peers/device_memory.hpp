#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "timing.hpp"

namespace bench {

/// Device memory, zeroed, 256-byte aligned; null where `bytes` is 0.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes) {
    if (bytes == 0) return;
    void* data = nullptr;
    check(cudaMalloc(&data, bytes), "cudaMalloc");
    data_.reset(data);
    check(cudaMemset(data, 0, bytes), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaMemset");
  }

  template <typename Element>
  [[nodiscard]] Element* as() const {
    return static_cast<Element*>(data_.get());
  }

 private:
  struct Free {
    void operator()(void* data) const { (void)cudaFree(data); }
  };
  std::unique_ptr<void, Free> data_;
};

}  // namespace bench
