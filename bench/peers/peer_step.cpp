#include "peers/peer_step.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "timing.hpp"

namespace bench {

std::string LayerOption::label() const {
  std::string text;
  for (const PeerOps* ops : {&forward, &gradient, &weights}) {
    for (const PeerOp& op : *ops) text += (text.empty() ? "" : " ") + op.label;
  }
  return text;
}

PeerStep::PeerStep(const Network& network) : network_(network) {
  for (Branch& branch : branches_) {
    check(cudaStreamCreateWithFlags(&branch.stream, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
    check(cudaEventCreateWithFlags(&branch.event, cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    branch.workspace = DeviceBuffer(kLtWorkspaceBytes);
  }
}

PeerStep::~PeerStep() {
  (void)cudaDeviceSynchronize();
  for (Branch& branch : branches_) {
    if (branch.event != nullptr) (void)cudaEventDestroy(branch.event);
    if (branch.stream != nullptr) (void)cudaStreamDestroy(branch.stream);
  }
}

int PeerStep::add_option(std::size_t layer, LayerOption option) {
  options_[layer].push_back(std::move(option));
  return static_cast<int>(options_[layer].size()) - 1;
}

const LayerOption& PeerStep::chosen(const StepChoice& choice, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  return options_[l][static_cast<std::size_t>(choice.options[l])];
}

void PeerStep::let_wait(const Branch& later, const Branch& earlier) {
  check(cudaEventRecord(earlier.event, earlier.stream), "cudaEventRecord");
  check(cudaStreamWaitEvent(later.stream, earlier.event, 0), "cudaStreamWaitEvent");
}

void PeerStep::enqueue(const PeerOps& ops, int branch) const {
  const Branch& on = branches_[static_cast<std::size_t>(branch)];
  for (const PeerOp& op : ops) op.enqueue(on.workspace.as<void>(), on.stream);
}

int PeerStep::branch_of_weights(const StepChoice& choice, int layer) const {
  if (choice.branches == 0 || layer == 0) return 0;
  return 1 + (network_.row().depth() - 1 - layer) % choice.branches;
}

void PeerStep::enqueue(const StepChoice& choice) const {
  const Row& row = network_.row();
  for (int l = 0; l < row.depth(); ++l) enqueue(chosen(choice, l).forward, 0);
  if (row.mode == Mode::TrainStep) {
    const Network::Layer& last = network_.layers().back();
    enqueue_loss_gradient(last.y, network_.target(), last.gy, stream());
  }
  if (row.has_backward()) enqueue_backward(choice);
  if (row.mode == Mode::TrainStep) enqueue_sgd(network_.layers(), stream());
}

void PeerStep::enqueue_backward(const StepChoice& choice) const {
  std::array<bool, kMaxBranches + 1> forked = {};
  for (int l = network_.row().depth() - 1; l >= 0; --l) {
    const LayerOption& option = chosen(choice, l);
    enqueue(option.gradient, 0);
    const int branch = branch_of_weights(choice, l);
    const auto index = static_cast<std::size_t>(branch);
    if (branch != 0) {
      let_wait(branches_[index], branches_[0]);
      forked[index] = true;
    }
    enqueue(option.weights, branch);
  }
  for (std::size_t i = 1; i < branches_.size(); ++i) {
    if (forked[i]) let_wait(branches_[0], branches_[i]);
  }
}

std::size_t PeerStep::workspace_bytes(const StepChoice& choice) const {
  std::array<std::size_t, kMaxBranches + 1> bytes = {};
  const auto count = [&](const PeerOps& ops, int branch) {
    std::size_t& most = bytes[static_cast<std::size_t>(branch)];
    for (const PeerOp& op : ops) most = std::max(most, op.workspace_bytes);
  };
  for (int l = 0; l < network_.row().depth(); ++l) {
    const LayerOption& option = chosen(choice, l);
    count(option.forward, 0);
    count(option.gradient, 0);
    count(option.weights, branch_of_weights(choice, l));
  }
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

}  // namespace bench
