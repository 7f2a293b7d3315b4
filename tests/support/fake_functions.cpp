#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "support/fake_api.hpp"

namespace ai::test {

/// The table's functions but for captures and graphs.
struct FakeRuntime {
  static FakeCuda& fake() { return *FakeCuda::current_; }

  static cudaError_t get_last_error() {
    fake().calls_.emplace_back("get_last_error");
    return std::exchange(fake().last_error, cudaSuccess);
  }
  static const char* get_error_name(cudaError_t code) {
    switch (code) {
      case cudaSuccess: return "cudaSuccess";
      case cudaErrorUnknown: return "cudaErrorUnknown";
      case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
      default: return "cudaErrorOfTheFake";
    }
  }
  static const char* get_error_string(cudaError_t) { return "an error of the fake"; }
  static cudaError_t version(int* out) {
    *out = 13000;
    return cudaSuccess;
  }
  static cudaError_t get_device_count(int* out) {
    if (const cudaError_t e = fake().enter("get_device_count")) return e;
    *out = fake().device_count;
    return *out > 0 ? cudaSuccess : fake().error(cudaErrorNoDevice);
  }
  static cudaError_t get_device(int* out) {
    if (const cudaError_t e = fake().enter("get_device")) return e;
    *out = fake().device;
    return cudaSuccess;
  }
  static cudaError_t set_device(int device) {
    if (const cudaError_t e = fake().enter("set_device")) return e;
    if (device < 0 || device >= fake().device_count) {
      return fake().error(cudaErrorInvalidDevice);
    }
    fake().device = device;
    return cudaSuccess;
  }
  static cudaError_t device_get_attribute(int* out, cudaDeviceAttr, int) {
    if (const cudaError_t e = fake().enter("device_get_attribute")) return e;
    *out = 0;
    return cudaSuccess;
  }
  static cudaError_t pointer_get_attributes(cudaPointerAttributes* out, const void* data) {
    if (const cudaError_t e = fake().enter("pointer_get_attributes")) return e;
    *out = {};
    const auto* const address = static_cast<const std::byte*>(data);
    for (const auto& [base, block] : fake().blocks_) {
      const auto* const begin = static_cast<const std::byte*>(base);
      if (address >= begin && address < begin + block.bytes) {
        out->type = block.type;
        out->device = block.device;
      }
    }
    return cudaSuccess;
  }

  static cudaError_t mem_pool_create(cudaMemPool_t* out, const cudaMemPoolProps*) {
    if (const cudaError_t e = fake().enter("mem_pool_create")) return e;
    void* const pool = new char;
    fake().pools_.insert(pool);
    *out = static_cast<cudaMemPool_t>(pool);
    return cudaSuccess;
  }
  static cudaError_t mem_pool_set_attribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
    return fake().enter("mem_pool_set_attribute");
  }
  static cudaError_t mem_pool_destroy(cudaMemPool_t pool) {
    const cudaError_t e = fake().enter("mem_pool_destroy");
    if (fake().pools_.erase(pool) == 0) fake().broken_rules_.emplace_back("pool freed twice");
    delete reinterpret_cast<char*>(pool);
    return e;
  }
  static cudaError_t mem_pool_trim_to(cudaMemPool_t, std::size_t) {
    return fake().enter("mem_pool_trim_to");
  }
  static cudaError_t malloc_from_pool_async(void** out, std::size_t bytes, cudaMemPool_t,
                                            cudaStream_t) {
    if (const cudaError_t e = fake().enter("malloc_from_pool_async")) return e;
    if (bytes > fake().free_bytes) return fake().error(cudaErrorMemoryAllocation);
    *out = fake().allocate(bytes, fake().device, cudaMemoryTypeDevice, true);
    return cudaSuccess;
  }
  static cudaError_t free_async(void* data, cudaStream_t) {
    const cudaError_t e = fake().enter("free_async");
    if (fake().holding_) {
      fake().held_.emplace_back([data] { fake().release(data); });
    } else {
      fake().release(data);
    }
    return e;
  }
  static cudaError_t mem_get_info(std::size_t* free, std::size_t* total) {
    if (const cudaError_t e = fake().enter("mem_get_info")) return e;
    *free = fake().free_bytes;
    *total = fake().free_bytes;
    return cudaSuccess;
  }
  static cudaError_t memcpy_async(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                  cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("memcpy_async")) return e;
    return fake().work(stream, cudaGraphNodeTypeMemcpy, 0, [=] { std::memmove(to, from, bytes); });
  }
  static cudaError_t memcpy_2d_async(void* to, std::size_t to_pitch, const void* from,
                                     std::size_t from_pitch, std::size_t width, std::size_t rows,
                                     cudaMemcpyKind, cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("memcpy_2d_async")) return e;
    if (std::min(to_pitch, from_pitch) < width || std::max(to_pitch, from_pitch) > INT32_MAX) {
      return fake().error(cudaErrorInvalidPitchValue);
    }
    return fake().work(stream, cudaGraphNodeTypeMemcpy, 0, [=] {
      for (std::size_t r = 0; r < rows; ++r) {
        std::memmove(static_cast<char*>(to) + r * to_pitch,
                     static_cast<const char*>(from) + r * from_pitch, width);
      }
    });
  }
  static cudaError_t memset_async(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("memset_async")) return e;
    return fake().work(stream, cudaGraphNodeTypeMemset, 0, [=] { std::memset(to, value, bytes); });
  }
  static cudaError_t memset_2d_async(void* to, std::size_t pitch, int value, std::size_t width,
                                     std::size_t rows, cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("memset_2d_async")) return e;
    if (pitch < width) return fake().error(cudaErrorInvalidPitchValue);
    return fake().work(stream, cudaGraphNodeTypeMemset, 0, [=] {
      for (std::size_t r = 0; r < rows; ++r) {
        std::memset(static_cast<char*>(to) + r * pitch, value, width);
      }
    });
  }

  static cudaError_t stream_create_with_flags(cudaStream_t* out, unsigned flags) {
    if (const cudaError_t e = fake().enter("stream_create_with_flags")) return e;
    *out = reinterpret_cast<cudaStream_t>(fake().add_stream(flags));
    return cudaSuccess;
  }
  static cudaError_t stream_destroy(cudaStream_t stream) {
    const cudaError_t e = fake().enter("stream_destroy");
    if (fake().state(stream).status != cudaStreamCaptureStatusNone) {
      fake().broken_rules_.emplace_back("a capturing stream was destroyed");
    }
    fake().streams_.erase(reinterpret_cast<FakeCuda::StreamState*>(stream));
    return e;
  }
  static cudaError_t stream_synchronize(cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("stream_synchronize")) return e;
    if (fake().state(stream).status != cudaStreamCaptureStatusNone) {
      fake().invalidate(stream);
      return fake().error(cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
  }
  static cudaError_t stream_is_capturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
    if (const cudaError_t e = fake().enter("stream_is_capturing")) return e;
    if (stream == nullptr) {
      for (const auto& [s, owner] : fake().streams_) {
        if (s->flags == cudaStreamDefault && s->status != cudaStreamCaptureStatusNone) {
          return fake().error(cudaErrorStreamCaptureImplicit);
        }
      }
    }
    *out = fake().state(stream).status;
    return cudaSuccess;
  }
  static cudaError_t stream_get_id(cudaStream_t stream, unsigned long long* out) {
    if (const cudaError_t e = fake().enter("stream_get_id")) return e;
    const FakeCuda::StreamState& s = fake().state(stream);
    if (s.status != cudaStreamCaptureStatusNone) {
      fake().invalidate(stream);
      return fake().error(cudaErrorStreamCaptureUnsupported);
    }
    // The default streams, legacy and per-thread, are others on each device.
    const auto handle = reinterpret_cast<std::uintptr_t>(stream);
    const auto of_device = static_cast<unsigned long long>(2 * fake().device);
    *out = handle > 2 ? s.id : of_device + (handle == 2 ? 2 : 1);
    return cudaSuccess;
  }
  static cudaError_t stream_get_device(cudaStream_t stream, int* out) {
    if (const cudaError_t e = fake().enter("stream_get_device")) return e;
    if (fake().state(stream).status != cudaStreamCaptureStatusNone) {
      fake().invalidate(stream);
      return fake().error(cudaErrorStreamCaptureUnsupported);
    }
    const bool is_default = reinterpret_cast<std::uintptr_t>(stream) <= 2;
    *out = is_default ? fake().device : fake().state(stream).device;
    return cudaSuccess;
  }
  /// Work is over when it has been enqueued, so nothing is left to wait for. No event of the fake
  /// is part of a capture.
  static cudaError_t stream_wait_event(cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (const cudaError_t e = fake().enter("stream_wait_event")) return e;
    if (!fake().events_.contains(reinterpret_cast<FakeCuda::Event*>(event))) {
      fake().broken_rules_.emplace_back("an event that does not exist was waited for");
    }
    if (fake().state(stream).status == cudaStreamCaptureStatusNone) return cudaSuccess;
    fake().invalidate(stream);
    return fake().error(cudaErrorStreamCaptureIsolation);
  }
  static cudaError_t library_load_data(cudaLibrary_t* out, const void*, cudaJitOption*, void**,
                                       unsigned, cudaLibraryOption*, void**, unsigned) {
    if (const cudaError_t e = fake().enter("library_load_data")) return e;
    void* const library = new char;
    fake().libraries_.insert(library);
    *out = static_cast<cudaLibrary_t>(library);
    return cudaSuccess;
  }
  static cudaError_t library_unload(cudaLibrary_t library) {
    const cudaError_t e = fake().enter("library_unload");
    if (fake().libraries_.erase(library) == 0) {
      fake().broken_rules_.emplace_back("a library was unloaded twice");
    }
    delete reinterpret_cast<char*>(library);
    return e;
  }
  /// A library is its one kernel.
  static cudaError_t library_get_kernel(cudaKernel_t* out, cudaLibrary_t library, const char*) {
    if (const cudaError_t e = fake().enter("library_get_kernel")) return e;
    *out = reinterpret_cast<cudaKernel_t>(library);
    return cudaSuccess;
  }
  static cudaError_t func_set_attribute(const void*, cudaFuncAttribute, int) {
    return fake().enter("func_set_attribute");
  }
  static cudaError_t occupancy_max_active_clusters(int* out, const void*,
                                                   const cudaLaunchConfig_t*) {
    if (const cudaError_t e = fake().enter("occupancy_max_active_clusters")) return e;
    *out = 1;
    return cudaSuccess;
  }
  static cudaError_t occupancy_max_active_blocks(int* out, const void*, int, std::size_t) {
    if (const cudaError_t e = fake().enter("occupancy_max_active_blocks")) return e;
    *out = 1;
    return cudaSuccess;
  }
  static cudaError_t event_create_with_flags(cudaEvent_t* out, unsigned) {
    if (const cudaError_t e = fake().enter("event_create_with_flags")) return e;
    auto made = std::make_unique<FakeCuda::Event>();
    auto* const handle = made.get();
    fake().events_[handle] = std::move(made);
    *out = reinterpret_cast<cudaEvent_t>(handle);
    return cudaSuccess;
  }
  static cudaError_t event_destroy(cudaEvent_t event) {
    const cudaError_t e = fake().enter("event_destroy");
    fake().events_.erase(reinterpret_cast<FakeCuda::Event*>(event));
    return e;
  }
  static cudaError_t event_record(cudaEvent_t event, cudaStream_t) {
    if (const cudaError_t e = fake().enter("event_record")) return e;
    reinterpret_cast<FakeCuda::Event*>(event)->at_us = fake().microseconds_;
    return cudaSuccess;
  }
  static cudaError_t event_query(cudaEvent_t) { return fake().enter("event_query"); }
  static cudaError_t event_synchronize(cudaEvent_t) { return fake().enter("event_synchronize"); }
  static cudaError_t event_elapsed_time(float* out, cudaEvent_t begin, cudaEvent_t end) {
    if (const cudaError_t e = fake().enter("event_elapsed_time")) return e;
    *out = static_cast<float>((reinterpret_cast<FakeCuda::Event*>(end)->at_us -
                               reinterpret_cast<FakeCuda::Event*>(begin)->at_us) *
                              1e-3);
    return cudaSuccess;
  }
};

void fill_graph_functions(cuda::Api& table);   // fake_graph_functions.cpp
void fill_driver_functions(cuda::Api& table);  // fake_driver_functions.cpp

const cuda::Api& FakeCuda::api() {
  static const cuda::Api table = [] {
    cuda::Api t{};
    t.get_last_error = FakeRuntime::get_last_error;
    t.get_error_name = FakeRuntime::get_error_name;
    t.get_error_string = FakeRuntime::get_error_string;
    t.runtime_get_version = FakeRuntime::version;
    t.driver_get_version = FakeRuntime::version;
#define GE_FAKE(name) t.name = FakeRuntime::name
    GE_FAKE(get_device_count);
    GE_FAKE(get_device);
    GE_FAKE(set_device);
    GE_FAKE(device_get_attribute);
    GE_FAKE(pointer_get_attributes);
    GE_FAKE(mem_pool_create);
    GE_FAKE(mem_pool_set_attribute);
    GE_FAKE(mem_pool_destroy);
    GE_FAKE(mem_pool_trim_to);
    GE_FAKE(malloc_from_pool_async);
    GE_FAKE(free_async);
    GE_FAKE(mem_get_info);
    GE_FAKE(memcpy_async);
    GE_FAKE(memcpy_2d_async);
    GE_FAKE(memset_async);
    GE_FAKE(memset_2d_async);
    GE_FAKE(stream_create_with_flags);
    GE_FAKE(stream_destroy);
    GE_FAKE(stream_synchronize);
    GE_FAKE(stream_is_capturing);
    GE_FAKE(stream_get_id);
    GE_FAKE(stream_get_device);
    GE_FAKE(stream_wait_event);
    GE_FAKE(library_load_data);
    GE_FAKE(library_unload);
    GE_FAKE(library_get_kernel);
    GE_FAKE(func_set_attribute);
    GE_FAKE(occupancy_max_active_clusters);
    GE_FAKE(occupancy_max_active_blocks);
    GE_FAKE(event_create_with_flags);
    GE_FAKE(event_destroy);
    GE_FAKE(event_record);
    GE_FAKE(event_query);
    GE_FAKE(event_synchronize);
    GE_FAKE(event_elapsed_time);
#undef GE_FAKE
    fill_graph_functions(t);
    fill_driver_functions(t);
    return t;
  }();
  return table;
}

}  // namespace ai::test
