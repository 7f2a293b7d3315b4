#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "ai/status.hpp"
#include "cuda/api.hpp"
#include "cuda/cubin_recall.hpp"
#include "cuda/owners.hpp"

namespace ai::cuda {

/// A cubin, loaded by the first call that needs a kernel of it. Whoever enqueues such a kernel
/// holds the image until its last launch is over. Thread-safe.
class KernelImage {
 public:
  KernelImage(const Api& api, Cubin cubin) noexcept : api_(api), cubin_(std::move(cubin)) {}
  KernelImage(const KernelImage&) = delete;
  KernelImage& operator=(const KernelImage&) = delete;
  ~KernelImage();  ///< unloads; not within a callback of CUDA's

  /// The kernel of that name, for any call that takes a function: on each device attributes are set
  /// for themselves. Not during a capture. The handle lives as long as this.
  [[nodiscard]] Result<const void*> kernel(const char* name) noexcept;

  [[nodiscard]] const Cubin& cubin() const noexcept { return cubin_; }

 private:
  const Api& api_;
  Cubin cubin_;
  std::mutex mutex_;
  OwnedLibrary library_;
};

/// What became of one request.
struct RequestedImage {
  Result<std::shared_ptr<KernelImage>> image;
  bool compiled = false;  ///< for this request, with success or without
  double compile_s = 0;
  Status problem = {};  ///< RecalledCubin::problem
};

/// The images of `requests`, in their order: those that someone in the process still holds, so that
/// none is compiled or loaded again, and else as recall_or_compile() has them. The call itself
/// fails with OutOfMemory only. Thread-safe; does not call CUDA.
[[nodiscard]] Result<std::vector<RequestedImage>> kernel_images(
    const Api& api, NvrtcLoader load_nvrtc, const CubinStore& store,
    std::span<const CompileRequest> requests) noexcept;

}  // namespace ai::cuda
