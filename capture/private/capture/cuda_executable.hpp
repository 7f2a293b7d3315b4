#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "capture/executable_impl.hpp"
#include "capture/rebinding.hpp"
#include "capture/reclaim.hpp"
#include "capture/recorder.hpp"
#include "cuda/driver_launch.hpp"
#include "cuda/driver_nodes.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// What an executable is made of.
struct CapturedGraph {
  cuda::OwnedGraph graph;    ///< what `exec` was instantiated from: it knows its nodes alone
  cuda::OwnedGraph updated;  ///< what it was last updated from, if it was
  cuda::OwnedGraphExec exec;
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphNode_t> cooperative;    ///< as in Recording
  bool has_switches = true;                    ///< each other node can be switched off
  std::vector<std::size_t> user_nodes;         ///< as in Recording
  std::vector<std::vector<int>> dependencies;  ///< of the steps
  std::vector<StepKernel> kernels;             ///< in `graph`; none once there is an `updated`
  bool half_patched = false;                   ///< `graph` is neither as before nor as asked for
  // One of the two:
  std::unique_ptr<Retained> owned;
  RetainedObject shared;  ///< where the graphs retain it (reclaim.hpp)

  [[nodiscard]] Retained& retained() const noexcept {
    return owned != nullptr ? *owned : *shared.get();
  }
};

/// An instantiated graph.
class CudaExecutable final : public Executable::Impl {
 public:
  CudaExecutable(const cuda::Api& api, Blueprint blueprint, CapturedGraph captured,
                 ExecutableInfo info) noexcept;
  ~CudaExecutable() override;

  [[nodiscard]] Status launch(Stream stream) noexcept override;
  [[nodiscard]] Status enqueue(Stream stream) noexcept override;
  [[nodiscard]] Status wait() noexcept override;
  [[nodiscard]] Status rebind(std::span<const Rebinding> moves) override;
  [[nodiscard]] Result<Executable> clone(std::span<const Rebinding> moves) const override;
  void hold(std::shared_ptr<const void> what) noexcept override;

 private:
  [[nodiscard]] Status launched(Stream stream) noexcept;
  [[nodiscard]] std::optional<Status> launch_by_driver(Stream stream) noexcept;
  [[nodiscard]] Status launch_by_runtime(Stream stream) noexcept;
  [[nodiscard]] Status launch_on_device(Stream stream, bool by_driver) noexcept;
  [[nodiscard]] Status check_stream(Stream stream) const noexcept;
  [[nodiscard]] Status wait_for_all() noexcept;
  [[nodiscard]] Status wait_here() noexcept;
  [[nodiscard]] Status fence(Stream stream) noexcept;
  [[nodiscard]] Status empty_cooperative() noexcept;
  [[nodiscard]] Status leave_to_last_launch() noexcept;
  void abandon() noexcept;
  [[nodiscard]] Status enqueue_steps(Stream stream);

  // cuda_rebind.cpp
  [[nodiscard]] Status rebind_here(std::span<const Rebinding> moves);
  [[nodiscard]] Result<Moves> resolve_here(std::span<const Rebinding> moves) const;
  [[nodiscard]] Result<cuda::OwnedGraph> record_moved(const Moves& moves);
  [[nodiscard]] Status replace(const Moves& moves);
  [[nodiscard]] Status finish();
  [[nodiscard]] Status replace_refused(const Moves& moves);
  [[nodiscard]] bool restore() noexcept;
  [[nodiscard]] Result<cudaStream_t> private_stream() noexcept;
  void switch_on() noexcept;

  // cuda_patch.cpp: a rebind that records only the steps that move, and puts their kernels into the
  // nodes of `captured_.graph`.
  struct Kernels;
  enum class Patch {
    Done,
    Impossible,  ///< nothing has changed
    Refused      ///< by CUDA: the executable may be half updated
  };
  [[nodiscard]] bool can_patch(const Moves& moves) noexcept;
  [[nodiscard]] Result<Patch> patch(const Moves& moves);
  [[nodiscard]] Result<Kernels> record_kernels(const Moves& moves, bool moved);
  [[nodiscard]] bool set(const Kernels& kernels) noexcept;
  [[nodiscard]] bool unpatch(const Moves& moves) noexcept;

  const cuda::Api& api_;
  const int device_;
  const cuda::DriverLaunch driver_;
  CapturedGraph captured_;
  cuda::OwnedStream private_stream_;  // made by the first rebind, as are
  std::optional<cuda::DriverNodes> driver_nodes_;
  Stream last_stream_ = nullptr;
  bool launched_ = false;
  std::uint64_t last_thread_ = 0;  // where last_stream_ is the per-thread one
  bool running_ = false;           // a launch may be
  cuda::OwnedEvent enqueued_;      // behind the last enqueue(), if that may be running
};

/// Plans the workspace of `blueprint`, records its steps and instantiates the graph, on the current
/// device, that of the blueprint, in relaxed capture mode. `tuning` is what the executable says of
/// its choices. May throw std::bad_alloc.
[[nodiscard]] Result<Executable> make_cuda_executable(const cuda::Api& api, Blueprint blueprint,
                                                      const TuningReport& tuning);

/// The parts of that. Maps the blueprint's addresses.
struct CudaParts {
  CapturedGraph captured;
  ExecutableInfo info;
};
[[nodiscard]] Result<CudaParts> build(const cuda::Api& api, Blueprint& blueprint);

/// The steps of a blueprint over its addresses.
[[nodiscard]] std::vector<RecordedStep> recorded_steps(const Blueprint& blueprint);

}  // namespace ai::detail
