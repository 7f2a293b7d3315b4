// Linked into every program that needs a GPU: ends it before main where there is none.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace {

const bool kHasGpu = [] {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return true;
  std::printf("skipped: no GPU (%s)\n",
              code == cudaSuccess ? "device count is 0" : cudaGetErrorString(code));
  std::fflush(stdout);
  std::_Exit(77);
}();

}  // namespace
