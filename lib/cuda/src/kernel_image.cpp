#include "cuda/kernel_image.hpp"

#include <cstddef>
#include <map>
#include <new>
#include <string>

#include "cuda/error.hpp"
#include "cuda/guards.hpp"

namespace ai::cuda {
namespace {

/// Images that are alive, by the table that they are loaded through and their key.
class LivingImages {
 public:
  /// Null where there is none.
  [[nodiscard]] std::shared_ptr<KernelImage> find(const Api& api, const std::string& key) {
    const std::scoped_lock lock(mutex_);
    const auto known = images_.find({&api, key});
    return known == images_.end() ? nullptr : known->second.lock();
  }

  /// `image`, or what another thread has added in the meantime.
  [[nodiscard]] std::shared_ptr<KernelImage> add(const Api& api, const std::string& key,
                                                 std::shared_ptr<KernelImage> image) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(images_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<KernelImage>& known = images_[{&api, key}];
    if (std::shared_ptr<KernelImage> other = known.lock()) return other;
    known = image;
    return image;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<const Api*, std::string>, std::weak_ptr<KernelImage>> images_;
};

LivingImages& living_images() {
  static LivingImages& images = *new LivingImages;  // steps of static lifetime may outlive statics
  return images;
}

std::vector<RequestedImage> all_images(const Api& api, NvrtcLoader load_nvrtc,
                                       const CubinStore& store,
                                       std::span<const CompileRequest> requests) {
  LivingImages& living = living_images();
  std::vector<RequestedImage> images;
  images.reserve(requests.size());
  std::vector<std::string> keys;
  std::vector<std::size_t> missing;
  std::vector<CompileRequest> sources;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    keys.push_back(cubin_key(requests[i]));
    std::shared_ptr<KernelImage> image = living.find(api, keys[i]);
    if (image == nullptr) {
      missing.push_back(i);
      sources.push_back(requests[i]);
    }
    images.push_back({std::move(image)});
  }
  if (missing.empty()) return images;
  Result<std::vector<RecalledCubin>> cubins = recall_or_compile(load_nvrtc, store, sources);
  if (!cubins) throw std::bad_alloc();
  for (std::size_t i = 0; i < missing.size(); ++i) {
    RecalledCubin& recalled = (*cubins)[i];
    RequestedImage& requested = images[missing[i]];
    requested.compiled = recalled.compiled;
    requested.problem = std::move(recalled.problem);
    if (!recalled.cubin) {
      requested.image = recalled.cubin.status();
      continue;
    }
    requested.compile_s = recalled.cubin->compile_s;
    requested.image =
        living.add(api, keys[missing[i]],
                   std::make_shared<KernelImage>(api, std::move(recalled.cubin).value()));
  }
  return images;
}

}  // namespace

KernelImage::~KernelImage() {
  if (!library_) return;
  const CaptureModeGuard relaxed(api_);
  library_.reset();
}

Result<const void*> KernelImage::kernel(const char* name) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!library_) {
    Result<OwnedLibrary> loaded = load_library(api_, cubin_.image.data());
    AI_RETURN_IF_ERROR(loaded.status());
    library_ = std::move(loaded).value();
  }
  cudaKernel_t kernel = nullptr;
  AI_CUDA_RETURN_IF_ERROR(api_, library_get_kernel, &kernel, library_.get(), name);
  return static_cast<const void*>(kernel);
}

Result<std::vector<RequestedImage>> kernel_images(const Api& api, NvrtcLoader load_nvrtc,
                                                  const CubinStore& store,
                                                  std::span<const CompileRequest> requests) noexcept
    try {
  return all_images(api, load_nvrtc, store, requests);
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

}  // namespace ai::cuda
