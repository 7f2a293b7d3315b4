#include "cuda/guards.hpp"

#include <doctest/doctest.h>

#include "recording_api.hpp"

using namespace ai::cuda;

TEST_CASE("a device guard switches for its scope and restores the caller's device") {
  const Api api = test::recording_api();
  test::recording().device = 1;
  {
    const DeviceGuard guard(api, 0);
    CHECK(guard.status().ok());
    CHECK(test::recording().device == 0);
  }
  CHECK(test::recording().device == 1);
}

TEST_CASE("a device guard for the current device sets nothing") {
  const Api api = test::recording_api();
  { const DeviceGuard guard(api, 0); }
  CHECK(test::recording().count("set_device") == 0);
}

TEST_CASE("a device guard that cannot switch says so and leaves the caller's device current") {
  Api api = test::recording_api();
  test::recording().device = 1;
  SUBCASE("the current device is unknown") {
    test::recording().fail["get_device"] = cudaErrorInsufficientDriver;
    {
      const DeviceGuard guard(api, 0);
      CHECK(guard.status().code() == ai::StatusCode::Unsupported);
    }
    CHECK(test::recording().count("set_device") == 0);
  }
  SUBCASE("the switch is refused") {
    test::recording().fail["set_device"] = cudaErrorInvalidDevice;
    const DeviceGuard guard(api, 0);
    CHECK(guard.status().message().starts_with("cudaSetDevice failed"));
  }
  SUBCASE("the switch fails after it took place") {
    api.set_device = [](int device) {
      test::recording().device = device;
      return device == 0 ? cudaErrorMemoryAllocation : cudaSuccess;
    };
    const DeviceGuard guard(api, 0);
    CHECK(guard.status().code() == ai::StatusCode::OutOfMemory);
  }
  CHECK(test::recording().device == 1);
  CHECK(test::recording().last_error == cudaSuccess);
}

TEST_CASE("a device guard that cannot restore leaves no error behind") {
  const Api api = test::recording_api();
  {
    const DeviceGuard guard(api, 1);
    test::recording().fail["set_device"] = cudaErrorCudartUnloading;
  }
  CHECK(test::recording().last_error == cudaSuccess);
}

TEST_CASE("a capture-mode guard relaxes for its scope and restores the thread's mode") {
  const Api api = test::recording_api();
  test::recording().mode = cudaStreamCaptureModeGlobal;
  {
    const CaptureModeGuard outer(api);
    CHECK(test::recording().mode == cudaStreamCaptureModeRelaxed);
    {
      const CaptureModeGuard inner(api);
      CHECK(test::recording().mode == cudaStreamCaptureModeRelaxed);
    }
    CHECK(test::recording().mode == cudaStreamCaptureModeRelaxed);
  }
  CHECK(test::recording().mode == cudaStreamCaptureModeGlobal);
}

TEST_CASE("a capture-mode guard that failed restores nothing and leaves no error behind") {
  const Api api = test::recording_api();
  test::recording().fail["thread_exchange_stream_capture_mode"] = cudaErrorInsufficientDriver;
  { const CaptureModeGuard guard(api); }
  CHECK(test::recording().count("thread_exchange_stream_capture_mode") == 1);
  CHECK(test::recording().last_error == cudaSuccess);
}
