#include <new>
#include <utility>
#include <vector>

#include "capture/cuda_executable.hpp"

namespace ai::detail {

/// The kernels of the moved steps over one set of addresses, next to the nodes that are to run
/// them. A node keeps its attributes: a step launches a function in one way.
struct CudaExecutable::Kernels {
  struct Pair {
    CUgraphNode node = nullptr;
    CUDA_KERNEL_NODE_PARAMS params = {};  // its arrays live in `graph`
  };
  cuda::OwnedGraph graph;
  std::vector<Pair> pairs;
  bool fit = false;  ///< the same functions in the same places
};

bool CudaExecutable::can_patch(const Moves& moves) noexcept {
  if (captured_.kernels.empty()) return false;
  // A way to have the functions of user steps run again.
  if (moves.footprints.empty() && !captured_.user_nodes.empty()) return false;
  for (const Footprint& moved : moves.footprints) {
    if (!captured_.kernels[moved.step].alone) return false;
  }
  if (!driver_nodes_) driver_nodes_ = cuda::driver_nodes(api_);
  return static_cast<bool>(*driver_nodes_);
}

// One capture of the moved steps, one behind the other, is the quickest to make; it never runs.
Result<CudaExecutable::Kernels> CudaExecutable::record_kernels(const Moves& moves, bool moved) {
  const Result<cudaStream_t> stream = private_stream();
  AI_RETURN_IF_ERROR(stream.status());
  std::vector<RecordedStep> steps;
  std::vector<std::vector<int>> chain(moves.footprints.size());
  steps.reserve(chain.size());
  auto item = moves.items.begin();
  for (const Footprint& footprint : moves.footprints) {
    const BoundStep& bound = blueprint_.steps[footprint.step];
    while (item->index != bound.item) ++item;
    const AddressMap& old = blueprint_.items[bound.item].addresses;
    if (!steps.empty()) chain[steps.size()] = {static_cast<int>(steps.size()) - 1};
    steps.push_back({bound.step, moved ? &item->addresses : &old, false});
  }
  Result<Recording> recording =
      record(api_, *stream, steps, chain, blueprint_.retries, Describe::Kernels);
  AI_RETURN_IF_ERROR(recording.status());

  Kernels kernels;
  kernels.graph = std::move(recording->graph);
  kernels.pairs.reserve(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepKernel& made = recording->kernels[i];
    const StepKernel& present = captured_.kernels[moves.footprints[i].step];
    if (!made.alone || (made.node == nullptr) != (present.node == nullptr)) return kernels;
    if (made.node == nullptr) continue;
    CUDA_KERNEL_NODE_PARAMS before = {};
    Kernels::Pair pair{present.node, {}};
    if (driver_nodes_->get_params(present.node, &before) != CUDA_SUCCESS ||
        driver_nodes_->get_params(made.node, &pair.params) != CUDA_SUCCESS ||
        before.func != pair.params.func || before.kern != pair.params.kern) {
      return kernels;
    }
    kernels.pairs.push_back(pair);
  }
  kernels.fit = true;
  return kernels;
}

bool CudaExecutable::set(const Kernels& kernels) noexcept {
  bool all = kernels.fit;
  for (std::size_t i = 0; all && i < kernels.pairs.size(); ++i) {
    const Kernels::Pair& pair = kernels.pairs[i];
    all = driver_nodes_->set_params(pair.node, &pair.params) == CUDA_SUCCESS;
  }
  return all;
}

// What a node did before can only be had by recording it again: what the driver hands out are
// pointers into the node.
bool CudaExecutable::unpatch(const Moves& moves) noexcept {
  try {
    const Result<Kernels> old = record_kernels(moves, false);
    captured_.half_patched = !old || !set(*old);
  } catch (const std::bad_alloc&) {
    captured_.half_patched = true;
  }
  return !captured_.half_patched;
}

Result<CudaExecutable::Patch> CudaExecutable::patch(const Moves& moves) {
  if (moves.footprints.empty()) return Patch::Done;
  const Result<Kernels> kernels = record_kernels(moves, true);
  AI_RETURN_IF_ERROR(kernels.status());
  if (!kernels->fit) return Patch::Impossible;
  if (!set(*kernels)) return unpatch(moves) ? Patch::Impossible : Patch::Refused;
  cudaGraphExecUpdateResultInfo why{};
  if (api_.graph_exec_update(captured_.exec.get(), captured_.graph.get(), &why) == cudaSuccess) {
    return Patch::Done;
  }
  (void)api_.get_last_error();
  (void)unpatch(moves);
  return Patch::Refused;
}

}  // namespace ai::detail
