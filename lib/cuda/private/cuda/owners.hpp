#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "ai/status.hpp"
#include "cuda/api.hpp"

namespace ai::cuda {

/// Owns one handle and the table it is released through; empty when default-made or moved from.
/// Destruction never throws, ignores errors and leaves the thread's last-error slot clean.
template <typename Handle, auto kRelease>
class Owner {
 public:
  Owner() noexcept = default;
  Owner(const Api& api, Handle handle) noexcept : api_(&api), handle_(handle) {}
  Owner(Owner&& other) noexcept
      : api_(other.api_), handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    if (this != &other) {
      reset();
      api_ = other.api_;
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Owner() { reset(); }

  [[nodiscard]] Handle get() const noexcept { return handle_; }
  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != nullptr; }
  [[nodiscard]] Handle release() noexcept { return std::exchange(handle_, nullptr); }
  void reset() noexcept {
    if (handle_ != nullptr && (api_->*kRelease)(handle_) != cudaSuccess) {
      (void)api_->get_last_error();
    }
    handle_ = nullptr;
  }

 private:
  const Api* api_ = nullptr;
  Handle handle_ = nullptr;
};

using OwnedStream = Owner<cudaStream_t, &Api::stream_destroy>;
using OwnedEvent = Owner<cudaEvent_t, &Api::event_destroy>;
using OwnedGraph = Owner<cudaGraph_t, &Api::graph_destroy>;
using OwnedGraphExec = Owner<cudaGraphExec_t, &Api::graph_exec_destroy>;
/// Nothing that its kernels are part of may still run when it goes.
using OwnedLibrary = Owner<cudaLibrary_t, &Api::library_unload>;

/// Non-blocking: it has no implicit order with the legacy stream.
[[nodiscard]] Result<OwnedStream> make_stream(const Api& api) noexcept;
[[nodiscard]] Result<OwnedEvent> make_event(const Api& api, bool timing) noexcept;
[[nodiscard]] Result<OwnedGraph> make_graph(const Api& api) noexcept;
/// Machine code for every device that it fits; `image` may go afterwards.
[[nodiscard]] Result<OwnedLibrary> load_library(const Api& api, const void* image) noexcept;

/// Device memory of one owner, from a pool of the library's own on the current device. Freed in the
/// order of a private stream: freeing never waits for other work on the device (cudaFree would),
/// and what is freed goes back to the system at the next trim. The owner must know that no work
/// uses the memory any more.
class DeviceMemory {
 public:
  DeviceMemory() noexcept = default;
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// `bytes` (may be 0: null data) on `device`, 256-byte aligned, ready for use on every stream
  /// when this returns. Contents undefined. OutOfMemory names the size asked for and what is free.
  [[nodiscard]] static Result<DeviceMemory> allocate(const Api& api, int device,
                                                     std::size_t bytes) noexcept;

  /// Frees it behind all work that is on `stream` by now, without waiting; empty afterwards. The
  /// pool hands it out again in that order; what it does not need goes back to the system when
  /// something is next waited for. `stream` is not being captured.
  void free_behind(cudaStream_t stream) noexcept;
  /// Never frees it: for memory that something may use for ever. Empty afterwards.
  void abandon() noexcept;

 private:
  void free() noexcept;
  class Pool;  // one per device and Api, shared by all memory that came from it
  std::shared_ptr<Pool> pool_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ai::cuda
