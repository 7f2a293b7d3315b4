#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <memory>

#include "ai/ai.hpp"
#include "support/cases.hpp"

/// Cases on the GPU: their operands' buffers copied to device memory, guards and padding included,
/// and back.
namespace gpu {

/// Device copies of host buffers, alive as long as this object.
class DeviceCopies {
 public:
  DeviceCopies() = default;
  ~DeviceCopies() {
    for (const auto& [buffer, data] : copies_) (void)cudaFree(data);
  }
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  template <typename Data>
  [[nodiscard]] ai::Status upload(Data& data) {
    return transfer(data, cudaMemcpyHostToDevice);
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

 private:
  [[nodiscard]] static ai::Status check(cudaError_t error) {
    if (error == cudaSuccess) return {};
    return {ai::StatusCode::CudaError, cudaGetErrorString(error)};
  }

  template <typename Data>
  ai::Status transfer(Data& data, cudaMemcpyKind kind) {
    ai::Status status;
    data.for_each([&](const char*, support::Buffer& buffer, bool) {
      void*& copy = copies_[&buffer];
      if (status.ok() && copy == nullptr) status = check(cudaMalloc(&copy, buffer.raw_bytes()));
      if (!status.ok()) return;
      void* const host = buffer.raw().data();
      const bool up = kind == cudaMemcpyHostToDevice;
      status = check(cudaMemcpy(up ? copy : host, up ? host : copy, buffer.raw_bytes(), kind));
    });
    return status;
  }

  std::map<const support::Buffer*, void*> copies_;
};

[[nodiscard]] inline ai::Result<ai::GemmPlan> plan(const ai::GemmForward& call) {
  return ai::plan_forward(call);
}
[[nodiscard]] inline ai::Result<ai::GemmPlan> plan(const ai::GemmBackward& call) {
  return ai::plan_backward(call);
}

/// Plans, adds, captures by `capture(program)`, launches once, waits, copies everything back.
template <typename Data, typename Capture>
[[nodiscard]] ai::Status replay_once(Data& data, Capture&& capture) {
  DeviceCopies copies;
  AI_RETURN_IF_ERROR(copies.upload(data));
  const auto planned = plan(data.call(copies.place()));
  if (!planned.ok()) return planned.status();
  ai::Program program;
  AI_RETURN_IF_ERROR(program.add(*planned));
  ai::Result<ai::Executable> executable = capture(program);
  if (!executable.ok()) return executable.status();
  AI_RETURN_IF_ERROR(executable->launch());
  AI_RETURN_IF_ERROR(executable->wait());
  return copies.download(data);
}

}  // namespace gpu
