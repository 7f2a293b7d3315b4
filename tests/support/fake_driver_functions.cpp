#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "support/fake_api.hpp"

namespace ai::test {

/// The driver's functions, and the table's one that finds them. They are calls of their own, and
/// their errors are in no slot.
struct FakeDriver {
  static FakeCuda& fake() { return *FakeCuda::current_; }

  static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus* out) {
    if (const cudaError_t e = fake().enter("cuStreamIsCapturing", false)) {
      return static_cast<CUresult>(e);
    }
    *out = static_cast<CUstreamCaptureStatus>(fake().state(stream).status);
    return CUDA_SUCCESS;
  }
  // A context is its device, counted from 1.
  static CUresult get_context(CUstream stream, CUcontext* out) {
    if (const cudaError_t e = fake().enter("cuStreamGetCtx", false)) {
      return static_cast<CUresult>(e);
    }
    *out =
        reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(fake().state(stream).device + 1));
    return CUDA_SUCCESS;
  }
  static CUresult device_of_context(CUdevice* out, CUcontext context) {
    if (const cudaError_t e = fake().enter("cuCtxGetDevice", false)) {
      return static_cast<CUresult>(e);
    }
    *out = static_cast<CUdevice>(reinterpret_cast<std::uintptr_t>(context)) - 1;
    return CUDA_SUCCESS;
  }
  static CUresult graph_launch(CUgraphExec exec, CUstream stream) {
    if (const cudaError_t e = fake().enter("cuGraphLaunch", false)) {
      return static_cast<CUresult>(e);
    }
    return static_cast<CUresult>(fake().replay(reinterpret_cast<cudaGraphExec_t>(exec), stream));
  }
  // A node's parameters are the work that the node does, by reference as in CUDA.
  static CUresult get_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out) {
    if (const cudaError_t e = fake().enter("cuGraphKernelNodeGetParams", false)) {
      return static_cast<CUresult>(e);
    }
    auto* const handle = reinterpret_cast<FakeCuda::Node*>(node);
    if (handle->type != cudaGraphNodeTypeKernel) return CUDA_ERROR_INVALID_VALUE;
    *out = {};
    out->func = reinterpret_cast<CUfunction>(handle->function);
    out->kernelParams = reinterpret_cast<void**>(handle);
    return CUDA_SUCCESS;
  }
  static CUresult set_params(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
    if (const cudaError_t e = fake().enter("cuGraphKernelNodeSetParams", false)) {
      return static_cast<CUresult>(e);
    }
    auto* const handle = reinterpret_cast<FakeCuda::Node*>(node);
    auto* const from = reinterpret_cast<FakeCuda::Node*>(params->kernelParams);
    if (!fake().has_node(handle) || !fake().has_node(from)) {
      fake().broken_rules_.emplace_back("parameters of a node that does not exist were used");
      return CUDA_ERROR_INVALID_VALUE;
    }
    *handle = *from;
    return CUDA_SUCCESS;
  }
  static CUresult exec_set_params(CUgraphExec exec, CUgraphNode node,
                                  const CUDA_KERNEL_NODE_PARAMS* params) {
    if (const cudaError_t e = fake().enter("cuGraphExecKernelNodeSetParams", false)) {
      return static_cast<CUresult>(e);
    }
    auto* const executable = reinterpret_cast<FakeCuda::Exec*>(exec);
    const auto found = std::find_if(
        executable->nodes.begin(), executable->nodes.end(),
        [&](const auto& mine) { return mine.get() == reinterpret_cast<FakeCuda::Node*>(node); });
    if (found == executable->nodes.end()) return CUDA_ERROR_INVALID_VALUE;
    const auto* const bytes = static_cast<const unsigned char*>(params->kernelParams[0]);
    if (std::any_of(bytes, bytes + 64, [](unsigned char byte) { return byte != 0; })) {
      fake().broken_rules_.emplace_back("a kernel got parameters that it cannot know");
    }
    executable->bodies[static_cast<std::size_t>(found - executable->nodes.begin())]->what = {};
    return CUDA_SUCCESS;
  }
  static cudaError_t get_driver_entry_point(const char* symbol, void** out, unsigned,
                                            unsigned long long,
                                            cudaDriverEntryPointQueryResult* found) {
    if (const cudaError_t e = fake().enter("get_driver_entry_point")) return e;
    *found = cudaDriverEntryPointSymbolNotFound;
    if (!fake().driver_symbols.contains(symbol)) return cudaSuccess;
    const std::string name = symbol;
    if (name == "cuStreamIsCapturing") *out = reinterpret_cast<void*>(&is_capturing);
    if (name == "cuStreamGetCtx") *out = reinterpret_cast<void*>(&get_context);
    if (name == "cuCtxGetDevice") *out = reinterpret_cast<void*>(&device_of_context);
    if (name == "cuGraphLaunch") *out = reinterpret_cast<void*>(&graph_launch);
    if (name == "cuGraphKernelNodeGetParams") *out = reinterpret_cast<void*>(&get_params);
    if (name == "cuGraphKernelNodeSetParams") *out = reinterpret_cast<void*>(&set_params);
    if (name == "cuGraphExecKernelNodeSetParams") {
      *out = reinterpret_cast<void*>(&exec_set_params);
    }
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
  }
};

void fill_driver_functions(cuda::Api& table);

void fill_driver_functions(cuda::Api& table) {
  table.get_driver_entry_point = FakeDriver::get_driver_entry_point;
}

}  // namespace ai::test
