#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "network.hpp"
#include "peers/device_memory.hpp"
#include "peers/peer_plan.hpp"

namespace bench {

/// What there is to choose in a step.
struct StepChoice {
  std::vector<int> options;  ///< one of the options of each layer
  int branches = 0;  ///< beside the main one, for the weight gradients, at most kMaxBranches
};

/// Enqueues a step of a peer: forward, loss gradient, backward and update, as the row's mode has
/// them. The first layer's weight gradient stays on the main branch, which has nothing else to do
/// by then.
class PeerStep {
 public:
  static constexpr int kMaxBranches = 3;

  explicit PeerStep(const Network& network);
  ~PeerStep();
  PeerStep(const PeerStep&) = delete;
  PeerStep& operator=(const PeerStep&) = delete;

  /// Of the main branch.
  [[nodiscard]] cudaStream_t stream() const { return branches_[0].stream; }
  [[nodiscard]] void* workspace() const { return branches_[0].workspace.as<void>(); }

  void set_options(std::vector<std::vector<LayerOption>> options) { options_ = std::move(options); }
  [[nodiscard]] const std::vector<std::vector<LayerOption>>& options() const { return options_; }
  /// Its place among those of the layer.
  int add_option(std::size_t layer, LayerOption option);
  /// The last of the layer.
  void drop_option(std::size_t layer) { options_[layer].pop_back(); }
  [[nodiscard]] const LayerOption& chosen(const StepChoice& choice, int layer) const;

  /// On stream(), which has forked to the other branches and joined them when this returns. With
  /// branches it is to be captured.
  void enqueue(const StepChoice& choice) const;

  /// What the GEMMs of `choice` need, all branches together.
  [[nodiscard]] std::size_t workspace_bytes(const StepChoice& choice) const;

 private:
  struct Branch {
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    DeviceBuffer workspace;
  };
  static void let_wait(const Branch& later, const Branch& earlier);
  void enqueue(const PeerOps& ops, int branch) const;
  void enqueue_backward(const StepChoice& choice) const;
  [[nodiscard]] int branch_of_weights(const StepChoice& choice, int layer) const;

  const Network& network_;
  std::vector<std::vector<LayerOption>> options_;
  std::array<Branch, kMaxBranches + 1> branches_;  // the main one first
};

}  // namespace bench
