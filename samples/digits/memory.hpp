#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "ai/executable.hpp"
#include "ai/status.hpp"
#include "ai/tensor.hpp"

namespace digits {

/// Where a run keeps its numbers and how they get there: the CPU, or a GPU and one stream. All
/// copies are ordered on that stream, as the launches are. A failed call is remembered by status()
/// and turns the later ones into no-ops, so that a run checks once.
class Memory {
 public:
  virtual ~Memory() = default;

  /// `count` floats, zero at first, alive as long as this object. Null once status() is not ok.
  [[nodiscard]] virtual float* allocate(std::size_t count) = 0;
  virtual void upload(float* to, const std::vector<float>& from) = 0;
  [[nodiscard]] virtual std::vector<float> download(const float* from, std::size_t count) = 0;
  virtual void copy(float* to, const float* from, std::size_t count) = 0;
  virtual void zero(float* to, std::size_t count) = 0;

  [[nodiscard]] virtual ai::Stream stream() const = 0;
  [[nodiscard]] virtual ai::Target target() const = 0;
  [[nodiscard]] const ai::Status& status() const { return status_; }

  [[nodiscard]] ai::Tensor matrix(float* data, std::int64_t rows, std::int64_t cols) const {
    return ai::make_tensor_2d(data, {rows, cols}, ai::DType::F32, device());
  }
  [[nodiscard]] ai::Tensor vector(float* data, std::int64_t count) const {
    return ai::make_tensor_1d(data, count, ai::DType::F32, device());
  }
  [[nodiscard]] ai::Device device() const {
    return target() == ai::Target::CUDA ? ai::Device::CUDA : ai::Device::CPU;
  }

 protected:
  void fail(ai::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

 private:
  ai::Status status_;
};

[[nodiscard]] std::unique_ptr<Memory> make_host_memory();
/// Null in a build without CUDA.
[[nodiscard]] std::unique_ptr<Memory> make_cuda_memory();

}  // namespace digits
