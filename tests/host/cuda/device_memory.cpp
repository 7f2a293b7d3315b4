#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "cuda/owners.hpp"
#include "recording_api.hpp"

using ai::Result;
using ai::StatusCode;
using namespace ai::cuda;

namespace {

const std::vector<std::string> kMade{"stream_create_with_flags", "mem_pool_create",
                                     "mem_pool_set_attribute", "malloc_from_pool_async",
                                     "stream_synchronize"};
const std::vector<std::string> kFreed{"free_async", "stream_synchronize", "mem_pool_trim_to",
                                      "stream_destroy", "mem_pool_destroy"};

// The calls without those of the guards.
std::vector<std::string> work_calls() {
  std::vector<std::string> calls;
  for (const std::string& call : test::recording().calls) {
    if (call != "get_device" && call != "set_device" &&
        call != "thread_exchange_stream_capture_mode") {
      calls.push_back(call);
    }
  }
  return calls;
}

void check_clean() {
  CHECK(test::recording().live.empty());
  CHECK(test::recording().double_frees == 0);
  CHECK(test::recording().device == 0);
  CHECK(test::recording().mode == cudaStreamCaptureModeThreadLocal);
  CHECK(test::recording().last_error == cudaSuccess);
}

}  // namespace

TEST_CASE("memory comes from a pool of the asked device and is ready when allocate returns") {
  const Api api = test::recording_api();
  {
    Result<DeviceMemory> memory = DeviceMemory::allocate(api, 1, 1000);
    REQUIRE(memory.ok());
    CHECK(memory->data() != nullptr);
    CHECK(memory->bytes() == 1000);
    CHECK(work_calls() == kMade);
    CHECK(test::recording().pool_props.location.type == cudaMemLocationTypeDevice);
    CHECK(test::recording().pool_props.location.id == 1);
    CHECK(test::recording().pool_props.allocType == cudaMemAllocationTypePinned);
    CHECK(!test::recording().pool_waits_for_others);
    CHECK(test::recording().stream_flags == cudaStreamNonBlocking);
    CHECK(test::recording().last_stream != nullptr);
    CHECK(test::recording().device == 0);
    test::recording().calls.clear();
  }
  CHECK(work_calls() == kFreed);
  CHECK(test::recording().last_trim == 0);
  CHECK_FALSE(test::recording().unsafe_mode_seen);
  check_clean();
}

TEST_CASE("no bytes need no CUDA at all") {
  const Api api = test::recording_api();
  {
    Result<DeviceMemory> memory = DeviceMemory::allocate(api, 0, 0);
    REQUIRE(memory.ok());
    CHECK(memory->data() == nullptr);
    CHECK(memory->bytes() == 0);
  }
  CHECK(test::recording().calls.empty());
}

TEST_CASE("memory of one device shares a pool, which dies with its last user (B2)") {
  const Api api = test::recording_api();
  {
    DeviceMemory first = DeviceMemory::allocate(api, 0, 8).value();
    {
      DeviceMemory second = DeviceMemory::allocate(api, 0, 8).value();
      DeviceMemory elsewhere = DeviceMemory::allocate(api, 1, 8).value();
      CHECK(test::recording().count("mem_pool_create") == 2);
    }
    CHECK(test::recording().count("mem_pool_destroy") == 1);  // of device 1
  }
  CHECK(test::recording().count("mem_pool_destroy") == 2);
  { CHECK(DeviceMemory::allocate(api, 0, 8).ok()); }
  CHECK(test::recording().count("mem_pool_create") == 3);
  check_clean();
}

TEST_CASE("moved memory is freed exactly once") {
  const Api api = test::recording_api();
  {
    DeviceMemory first = DeviceMemory::allocate(api, 0, 8).value();
    DeviceMemory second = std::move(first);
    CHECK(first.data() == nullptr);
    CHECK(first.bytes() == 0);
    DeviceMemory third = DeviceMemory::allocate(api, 0, 16).value();
    third = std::move(second);
    CHECK(third.bytes() == 8);
    CHECK(test::recording().count("free_async") == 1);
    DeviceMemory& self = third;
    third = std::move(self);
    CHECK(third.data() != nullptr);
  }
  CHECK(test::recording().count("free_async") == 2);
  check_clean();
}

TEST_CASE("a shortage is OutOfMemory, names sizes, and the next call works (A2)") {
  const Api api = test::recording_api();
  test::recording().fail["malloc_from_pool_async"] = cudaErrorMemoryAllocation;
  const Result<DeviceMemory> memory = DeviceMemory::allocate(api, 1, 1000000);
  CHECK(memory.status().code() == StatusCode::OutOfMemory);
  CHECK(memory.status().message() ==
        "1000000 bytes of memory were asked for on device 1, which has 4096 of its 8192 bytes "
        "free");
  check_clean();
  test::recording().fail.clear();
  CHECK(DeviceMemory::allocate(api, 1, 8).ok());
  check_clean();
}

TEST_CASE("whichever call of allocate fails, everything made before is released") {
  for (const std::string call :
       {"get_device", "set_device", "stream_create_with_flags", "mem_pool_create",
        "mem_pool_set_attribute", "malloc_from_pool_async", "stream_synchronize"}) {
    CAPTURE(call);
    const Api api = test::recording_api();
    test::recording().fail[call] = cudaErrorInvalidValue;
    const Result<DeviceMemory> memory = DeviceMemory::allocate(api, 1, 8);
    CHECK(memory.status().code() == StatusCode::CudaError);
    check_clean();
  }
}

TEST_CASE("memory freed behind a stream's work goes in that order, and nothing is waited for") {
  const Api api = test::recording_api();
  const auto stream = reinterpret_cast<cudaStream_t>(0x50);
  DeviceMemory memory = DeviceMemory::allocate(api, 1, 8).value();
  test::recording().calls.clear();
  memory.free_behind(stream);
  CHECK(memory.data() == nullptr);
  CHECK(work_calls() == std::vector<std::string>{"event_create_with_flags", "free_async",
                                                 "event_record", "event_query", "event_destroy",
                                                 "stream_destroy", "mem_pool_destroy"});
  check_clean();
}

TEST_CASE("a pool stays until what was freed behind work is free") {
  static const Api api = test::recording_api();  // of what a pool may outlive
  const auto stream = reinterpret_cast<cudaStream_t>(0x50);
  test::recording().fail["event_query"] = cudaErrorNotReady;
  DeviceMemory::allocate(api, 1, 8).value().free_behind(stream);
  CHECK(test::recording().count("mem_pool_destroy") == 0);
  { CHECK(DeviceMemory::allocate(api, 0, 8).ok()); }
  CHECK(test::recording().count("mem_pool_destroy") == 1);  // of device 0
  test::recording().fail.clear();
  { CHECK(DeviceMemory::allocate(api, 1, 8).ok()); }
  CHECK(test::recording().count("mem_pool_create") == 3);
  CHECK(test::recording().count("mem_pool_destroy") == 3);
  check_clean();
}

TEST_CASE("a pool whose device was reset under it is forgotten, not used again") {
  static const Api api = test::recording_api();
  test::recording().fail["event_query"] = cudaErrorNotReady;
  DeviceMemory::allocate(api, 1, 8).value().free_behind(reinterpret_cast<cudaStream_t>(0x50));
  test::recording().fail["event_query"] = cudaErrorInvalidResourceHandle;
  { CHECK(DeviceMemory::allocate(api, 1, 8).ok()); }
  CHECK(test::recording().count("mem_pool_create") == 2);
  CHECK(test::recording().count("mem_pool_destroy") == 1);
  CHECK(test::recording().last_error == cudaSuccess);
  const int queries = test::recording().count("event_query");
  { CHECK(DeviceMemory::allocate(api, 1, 8).ok()); }
  CHECK(test::recording().count("event_query") == queries);
}

TEST_CASE("a pool stays for ever where nobody can tell when its memory is free") {
  for (const char* call : {"event_create_with_flags", "event_record"}) {
    CAPTURE(call);
    const Api api = test::recording_api();
    DeviceMemory memory = DeviceMemory::allocate(api, 1, 8).value();
    test::recording().fail[call] = cudaErrorUnknown;
    memory.free_behind(reinterpret_cast<cudaStream_t>(0x50));
    CHECK(test::recording().count("free_async") == 1);
    CHECK(test::recording().count("mem_pool_destroy") == 0);
    CHECK(test::recording().last_error == cudaSuccess);
    { CHECK(DeviceMemory::allocate(api, 1, 8).ok()); }
    CHECK(test::recording().count("mem_pool_create") == 2);
  }
}

TEST_CASE("abandoned memory is not freed, and its pool stays") {
  const Api api = test::recording_api();
  DeviceMemory memory = DeviceMemory::allocate(api, 1, 8).value();
  test::recording().calls.clear();
  memory.abandon();
  CHECK(memory.data() == nullptr);
  CHECK(work_calls().empty());
  CHECK(test::recording().live.size() == 3);  // with a stream
}

TEST_CASE("memory that outlives the driver is released without a word (B10)") {
  const Api api = test::recording_api();
  {
    DeviceMemory memory = DeviceMemory::allocate(api, 0, 8).value();
    for (const char* call :
         {"get_device", "set_device", "free_async", "stream_synchronize", "mem_pool_trim_to",
          "stream_destroy", "mem_pool_destroy", "thread_exchange_stream_capture_mode"}) {
      test::recording().fail[call] = cudaErrorCudartUnloading;
    }
  }
  CHECK(test::recording().last_error == cudaSuccess);
  CHECK(test::recording().double_frees == 0);
}

TEST_CASE("a free that fails goes on to release the pool") {
  const Api api = test::recording_api();
  {
    DeviceMemory memory = DeviceMemory::allocate(api, 1, 8).value();
    test::recording().fail["free_async"] = cudaErrorIllegalAddress;
    test::recording().fail["stream_synchronize"] = cudaErrorIllegalAddress;
  }
  CHECK(test::recording().count("mem_pool_destroy") == 1);
  CHECK(test::recording().count("stream_destroy") == 1);
  check_clean();
}
