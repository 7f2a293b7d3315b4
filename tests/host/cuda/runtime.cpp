#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

#include "cuda/api.hpp"
#include "cuda/device_info.hpp"
#include "cuda/guards.hpp"
#include "cuda/owners.hpp"

using ai::Result;
using ai::Status;
using ai::StatusCode;
using namespace ai::cuda;

TEST_CASE("the runtime's table has no hole") {
  const Api& api = runtime_api();
  constexpr std::size_t kCount = sizeof(Api) / sizeof(void*);
  static_assert(sizeof(Api) % sizeof(void*) == 0);
  std::uintptr_t functions[kCount];
  std::memcpy(functions, &api, sizeof(Api));
  for (std::size_t i = 0; i < kCount; ++i) {
    CAPTURE(i);
    CHECK(functions[i] != 0);
  }
  CHECK(&runtime_api() == &api);
}

TEST_CASE("with or without a GPU every door answers; with one, no error is left pending") {
  const Api& api = runtime_api();
  const Status usable = check_device(api, 0);
  const Result<DeviceInfo> info = device_info(api, 0);
  CHECK(info.ok() == usable.ok());
  Result<OwnedStream> stream = make_stream(api);
  CHECK(stream.ok() == usable.ok());
  CHECK(make_event(api, true).ok() == usable.ok());
  Result<DeviceMemory> memory = DeviceMemory::allocate(api, 0, 1024);
  CHECK(memory.ok() == usable.ok());
  if (usable.ok()) {
    CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 256 == 0);
    CHECK(info->sm_count > 0);
    CHECK_FALSE(info->name.empty());
    // Told only here: without a driver this question is itself answered with an error.
    CHECK(api.get_last_error() == cudaSuccess);
  } else {
    CHECK(usable.code() == StatusCode::Unsupported);
    CHECK(stream.status().code() == StatusCode::Unsupported);
    CHECK(memory.status().code() == StatusCode::Unsupported);
    const DeviceGuard guard(api, 0);
    CHECK(guard.status().code() == StatusCode::Unsupported);
  }
}

TEST_CASE("a device that does not exist is refused before anything is made") {
  const Api& api = runtime_api();
  CHECK_FALSE(check_device(api, 4096).ok());
  CHECK_FALSE(DeviceMemory::allocate(api, 4096, 1024).ok());
  const Result<DeviceMemory> nothing = DeviceMemory::allocate(api, 4096, 0);
  CHECK(nothing.ok());
}
