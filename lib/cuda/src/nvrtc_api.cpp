#include "cuda/nvrtc_api.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <new>
#include <string>

#include "cuda/device_info.hpp"
#include "cuda/load_once.hpp"

namespace ai::cuda {
namespace {

constexpr LibraryName kName{"NVRTC", "libnvrtc.so.13", "GRAPH_EXECUTOR_NVRTC",
                            "nvidia/cuda_nvrtc/lib"};
constexpr int kMajor = CUDART_VERSION / 1000;  // nvrtc.h carries no version; it is the toolkit's
static_assert(kMajor == 13, "kName's soname is of the version compiled against");

// NVRTC opens its builtins by their bare name and has no run path of its own: where the loader does
// not look into its folder, as with NVIDIA's wheels, it finds them only if they are loaded already.
// Where they are not there, it says so when it compiles.
void load_builtins(const LoaderApi& loader, const Library& library, const std::string& version) {
  const std::size_t folder = library.place.rfind('/') + 1;
  if (folder == 0) return;  // the loader knows the place
  const std::string file = library.place.substr(0, folder) + "libnvrtc-builtins.so." + version;
  (void)loader.open(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

Status resolve_all(const LoaderApi& loader, const Library& library, NvrtcApi& nvrtc) {
#define AI_RESOLVE(member, symbol) \
  AI_RETURN_IF_ERROR(resolve(loader, library, #symbol, nvrtc.member))
  AI_RESOLVE(version, nvrtcVersion);
  AI_RESOLVE(get_error_string, nvrtcGetErrorString);
  const Result<int> number = nvrtc_version(nvrtc);
  AI_RETURN_IF_ERROR(number.status());
  const std::string version = version_text(*number);
  AI_RETURN_IF_ERROR(check_major(kName, library, kMajor, *number / 1000, version));
  load_builtins(loader, library, version);

  AI_RESOLVE(create_program, nvrtcCreateProgram);
  AI_RESOLVE(destroy_program, nvrtcDestroyProgram);
  AI_RESOLVE(compile_program, nvrtcCompileProgram);
  AI_RESOLVE(get_cubin_size, nvrtcGetCUBINSize);
  AI_RESOLVE(get_cubin, nvrtcGetCUBIN);
  AI_RESOLVE(get_program_log_size, nvrtcGetProgramLogSize);
  AI_RESOLVE(get_program_log, nvrtcGetProgramLog);
  AI_RESOLVE(add_name_expression, nvrtcAddNameExpression);
  AI_RESOLVE(get_lowered_name, nvrtcGetLoweredName);
#undef AI_RESOLVE
  return {};
}

}  // namespace

Result<NvrtcApi> load_nvrtc_api(const LoaderApi& loader) noexcept try {
  Result<Library> library = open_library(kName, loader);
  if (!library) return library.status();
  NvrtcApi nvrtc{};
  AI_RETURN_IF_ERROR(resolve_all(loader, *library, nvrtc));
  return nvrtc;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

Result<const NvrtcApi*> nvrtc_api() noexcept try {
  // Never destroyed: objects of static lifetime may still use the table.
  static LoadOnce<NvrtcApi>& once = *new LoadOnce<NvrtcApi>(&load_nvrtc_api);
  return once.get(system_loader());
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

Result<int> nvrtc_version(const NvrtcApi& nvrtc) {
  int major = 0;
  int minor = 0;
  AI_RETURN_IF_ERROR(to_status(nvrtc, nvrtc.version(&major, &minor), "nvrtcVersion"));
  return major * 1000 + minor * 10;
}

Status to_status(const NvrtcApi& nvrtc, nvrtcResult code, const char* call) noexcept {
  if (code == NVRTC_SUCCESS) return {};
  const StatusCode status =
      code == NVRTC_ERROR_OUT_OF_MEMORY ? StatusCode::OutOfMemory : StatusCode::CudaError;
  try {
    return {status, std::string(call) + " failed: " + nvrtc.get_error_string(code) + " (" +
                        std::to_string(static_cast<int>(code)) + ")"};
  } catch (const std::bad_alloc&) {
    return {status, {}};
  }
}

}  // namespace ai::cuda
