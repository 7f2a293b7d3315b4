#pragma once

#include <memory>
#include <vector>

#include "capture/executable_impl.hpp"
#include "capture/reclaim.hpp"
#include "cuda/driver_launch.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// What an executable is made of.
struct CapturedGraph {
  cuda::OwnedGraph graph;
  cuda::OwnedGraphExec exec;
  std::vector<cudaGraphNode_t> nodes;
  std::unique_ptr<Retained> owned;     ///< null where the graph retains it (reclaim.hpp)
  const Retained* retained = nullptr;  ///< lives as long as `exec`
};

/// An instantiated graph on `device`.
class CudaExecutable final : public Executable::Impl {
 public:
  CudaExecutable(const cuda::Api& api, int device, CapturedGraph captured,
                 ExecutableInfo info) noexcept;
  ~CudaExecutable() override;

  [[nodiscard]] Status launch(Stream stream) noexcept override;
  [[nodiscard]] Status enqueue(Stream stream) noexcept override;
  [[nodiscard]] Status wait() noexcept override;

 private:
  [[nodiscard]] Status launched(Stream stream) noexcept;
  [[nodiscard]] Status launch_here(Stream stream) noexcept;
  [[nodiscard]] Status launch_on_device(Stream stream) noexcept;
  [[nodiscard]] Status check_stream(Stream stream) const noexcept;
  [[nodiscard]] Status refused(cudaError_t code) const noexcept;
  [[nodiscard]] Status wait_here() noexcept;
  [[nodiscard]] Status leave_to_last_launch() noexcept;
  void abandon() noexcept;
  [[nodiscard]] Status enqueue_steps(Stream stream);

  const cuda::Api& api_;
  const int device_;
  const cuda::DriverLaunch driver_;
  CapturedGraph captured_;
  Stream last_stream_ = nullptr;
  bool launched_ = false;
  bool running_ = false;       // a launch may be
  cuda::OwnedEvent enqueued_;  // behind the last enqueue(), if that may be running
};

/// Instantiates `graph` on the current device and sends it to the device, so that the first launch
/// is as quick as the others. May throw std::bad_alloc.
[[nodiscard]] Result<cuda::OwnedGraphExec> instantiate(const cuda::Api& api, cudaGraph_t graph);

}  // namespace ai::detail
