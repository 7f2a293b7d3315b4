#pragma once

#include <memory>

#include "capture/executable_impl.hpp"
#include "capture/reclaim.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// An instantiated graph on `device`. What its nodes point to is retained by the graph itself
/// (reclaim.hpp), so the executable may die while a launch is running.
class CudaExecutable final : public Executable::Impl {
 public:
  /// `retained` is what the graph retains: it lives as long as `exec`.
  CudaExecutable(const cuda::Api& api, int device, cuda::OwnedGraphExec exec,
                 const Retained* retained, ExecutableInfo info) noexcept;
  ~CudaExecutable() override;

  [[nodiscard]] Status launch(Stream stream) noexcept override;
  [[nodiscard]] Status enqueue(Stream stream) noexcept override;
  [[nodiscard]] Status wait() noexcept override;

 private:
  [[nodiscard]] Status launch_here(Stream stream) noexcept;
  [[nodiscard]] Status launch_on_device(Stream stream) noexcept;
  [[nodiscard]] Status check_stream(Stream stream) const noexcept;
  [[nodiscard]] Status refused(cudaError_t code) const noexcept;
  [[nodiscard]] Status wait_here() noexcept;

  const cuda::Api& api_;
  const int device_;
  cuda::OwnedGraphExec exec_;
  const Retained* retained_;
  Stream last_stream_ = nullptr;
  bool launched_ = false;
  bool enqueued_ = false;  // work that the graph does not know of may be running
};

/// Instantiates `graph` on the current device and sends it to the device, so that the first launch
/// is as quick as the others. May throw std::bad_alloc.
[[nodiscard]] Result<cuda::OwnedGraphExec> instantiate(const cuda::Api& api, cudaGraph_t graph);

}  // namespace ai::detail
