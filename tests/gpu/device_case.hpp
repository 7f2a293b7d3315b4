#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "ai/ai.hpp"
#include "support/cases.hpp"
#include "support/roads.hpp"

/// Cases on the GPU: their operands' buffers copied to device memory, guards and padding included,
/// and back.
namespace gpu {

using support::plan;

/// Device copies of host buffers, alive as long as this object.
class DeviceCopies {
 public:
  DeviceCopies() = default;
  ~DeviceCopies() {
    for (void* block : blocks_) (void)cudaFree(block);
  }
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  /// The copies are there for work on any stream once this has returned.
  template <typename Data>
  [[nodiscard]] ai::Status upload(Data& data) {
    AI_RETURN_IF_ERROR(allocate(data));
    AI_RETURN_IF_ERROR(transfer(data, cudaMemcpyHostToDevice));
    return check(cudaStreamSynchronize(nullptr));
  }
  template <typename Data>
  [[nodiscard]] ai::Status download(Data& data) {
    return transfer(data, cudaMemcpyDeviceToHost);
  }
  /// Where a case's tensors are once they are uploaded.
  [[nodiscard]] support::Place place() const {
    support::Place place;
    place.device = ai::Device::CUDA;
    place.base = [this](const support::Buffer& buffer) { return copies_.at(&buffer); };
    return place;
  }

  [[nodiscard]] static ai::Status check(cudaError_t error) {
    if (error == cudaSuccess) return {};
    return {ai::StatusCode::CudaError, cudaGetErrorString(error)};
  }

 private:
  /// One block for all buffers that have no copy yet: an allocation costs more than a small case.
  template <typename Data>
  ai::Status allocate(Data& data) {
    constexpr std::size_t kAlignment = 256;
    std::map<const support::Buffer*, std::size_t> places;
    std::size_t bytes = 0;
    data.for_each([&](const char*, support::Buffer& buffer, bool) {
      if (copies_.count(&buffer) == 1) return;
      places[&buffer] = bytes;
      bytes += (buffer.raw_bytes() + kAlignment - 1) / kAlignment * kAlignment;
    });
    if (bytes == 0) return {};
    void* block = nullptr;
    AI_RETURN_IF_ERROR(check(cudaMalloc(&block, bytes)));
    blocks_.push_back(block);
    for (const auto& [buffer, at] : places) copies_[buffer] = static_cast<std::byte*>(block) + at;
    return {};
  }

  template <typename Data>
  ai::Status transfer(Data& data, cudaMemcpyKind kind) {
    ai::Status status;
    data.for_each([&](const char*, support::Buffer& buffer, bool) {
      if (!status.ok()) return;
      void* const host = buffer.raw().data();
      void* const copy = copies_.at(&buffer);
      const bool up = kind == cudaMemcpyHostToDevice;
      status = check(cudaMemcpy(up ? copy : host, up ? host : copy, buffer.raw_bytes(), kind));
    });
    return status;
  }

  std::map<const support::Buffer*, void*> copies_;
  std::vector<void*> blocks_;
};

/// Plans, adds, captures by `capture(program)`, launches once, waits, copies everything back.
template <typename Data, typename Capture>
[[nodiscard]] ai::Status replay_once(Data& data, Capture&& capture) {
  DeviceCopies copies;
  AI_RETURN_IF_ERROR(copies.upload(data));
  AI_RETURN_IF_ERROR(support::launch_once(data.call(copies.place()), capture));
  return copies.download(data);
}

/// The direct path on `stream`, waited for, and everything copied back.
template <typename Data>
[[nodiscard]] ai::Status direct_once(Data& data, cudaStream_t stream) {
  DeviceCopies copies;
  AI_RETURN_IF_ERROR(copies.upload(data));
  AI_RETURN_IF_ERROR(
      support::direct(data.call(copies.place()), stream, support::takes_operand_form(data.spec)));
  AI_RETURN_IF_ERROR(DeviceCopies::check(cudaStreamSynchronize(stream)));
  return copies.download(data);
}

}  // namespace gpu
