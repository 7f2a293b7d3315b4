#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/api.hpp"

/// Kernels that are compiled at run time, on the fake device: loaded and launched, but not run.
namespace fake_chain {

struct Launch {
  const void* kernel = nullptr;
  unsigned blocks = 0;
  unsigned threads = 0;
  std::size_t shared_bytes = 0;
  unsigned cluster = 0;  ///< 0: no such attribute
  bool cooperative = false;
  std::vector<void*> parameter = {};  ///< the one structure, as addresses
};
struct State {
  int major = 9;
  int minor = 0;
  int shared_bytes = 227 << 10;
  int kilohertz = 1980000;
  int clusters = 4;     ///< that find room at once
  int cooperative = 1;  ///< whether there are such launches
  int blocks = 1;       ///< of a multiprocessor at once
  cudaError_t load_error = cudaSuccess;
  int loads = 0;
  std::set<void*> libraries;                    ///< that are loaded; each is its own kernel
  std::vector<std::string> kernels;             ///< that were asked for
  std::map<cudaFuncAttribute, int> attributes;  ///< as set last
  Launch asked;                                 ///< what occupancy was last asked about
  std::vector<Launch> launches;
  std::size_t addresses = 0;  ///< of the parameter
};
inline State& state() {
  static State instance;
  return instance;
}

inline Launch launch_of(const cudaLaunchConfig_t& config, const void* kernel) {
  Launch launch{kernel, config.gridDim.x, config.blockDim.x, config.dynamicSmemBytes};
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension) {
      launch.cluster = config.attrs[i].val.clusterDim.x;
    }
    if (config.attrs[i].id == cudaLaunchAttributeCooperative) {
      launch.cooperative = config.attrs[i].val.cooperative != 0;
    }
  }
  return launch;
}

/// Whether the kernel is one of ours; then it has been launched.
inline bool run_if_chain(const cudaLaunchConfig_t& config, const void* kernel, void** arguments) {
  if (!state().libraries.contains(const_cast<void*>(kernel))) return false;
  Launch launch = launch_of(config, kernel);
  auto* const* const addresses = static_cast<void* const*>(arguments[0]);
  launch.parameter.assign(addresses, addresses + state().addresses);
  state().launches.push_back(std::move(launch));
  return true;
}

inline cudaError_t attribute(int* value, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = state().major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = state().minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = state().shared_bytes; break;
    case cudaDevAttrClockRate: *value = state().kilohertz; break;
    case cudaDevAttrCooperativeLaunch: *value = state().cooperative; break;
    default: return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

inline void fill(ai::cuda::Api& api) {
  api.library_load_data = [](cudaLibrary_t* library, const void*, cudaJitOption*, void**, unsigned,
                             cudaLibraryOption*, void**, unsigned) {
    if (state().load_error != cudaSuccess) return state().load_error;
    ++state().loads;
    auto* const handle = new char;
    state().libraries.insert(handle);
    *library = reinterpret_cast<cudaLibrary_t>(handle);
    return cudaSuccess;
  };
  api.library_unload = [](cudaLibrary_t library) {
    if (state().libraries.erase(library) == 0) return cudaErrorInvalidResourceHandle;
    delete reinterpret_cast<char*>(library);
    return cudaSuccess;
  };
  api.library_get_kernel = [](cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
    state().kernels.emplace_back(name);
    *kernel = reinterpret_cast<cudaKernel_t>(library);
    return cudaSuccess;
  };
  api.func_set_attribute = [](const void*, cudaFuncAttribute attribute, int value) {
    state().attributes[attribute] = value;
    return cudaSuccess;
  };
  api.occupancy_max_active_clusters = [](int* clusters, const void* kernel,
                                         const cudaLaunchConfig_t* config) {
    state().asked = launch_of(*config, kernel);
    *clusters = state().clusters;
    return cudaSuccess;
  };
  api.occupancy_max_active_blocks = [](int* blocks, const void* kernel, int threads,
                                       std::size_t shared_bytes) {
    state().asked = {kernel, 0, static_cast<unsigned>(threads), shared_bytes};
    *blocks = state().blocks;
    return cudaSuccess;
  };
}

}  // namespace fake_chain
