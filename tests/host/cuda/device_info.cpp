#include "cuda/device_info.hpp"

#include <doctest/doctest.h>

#include "recording_api.hpp"

using ai::Result;
using ai::StatusCode;
using namespace ai::cuda;

TEST_CASE("a device that is there passes the check") {
  const Api api = test::recording_api();
  CHECK(check_device(api, 0).ok());
  CHECK(check_device(api, 1).ok());
}

TEST_CASE("a machine without a driver is told so") {
  const Api api = test::recording_api();
  test::recording().driver = 0;
  CHECK(check_device(api, 0).code() == StatusCode::Unsupported);
  CHECK(check_device(api, 0).message() ==
        "no NVIDIA driver is installed, one for CUDA 13.0 is wanted");
}

TEST_CASE("a driver of an older major version is named beside the one wanted") {
  const Api api = test::recording_api();
  test::recording().driver = 12040;
  CHECK(check_device(api, 0).code() == StatusCode::Unsupported);
  CHECK(check_device(api, 0).message() ==
        "the NVIDIA driver is for CUDA 12.4, one for CUDA 13.0 or later is wanted");
}

TEST_CASE("a machine without a GPU is told so, by count or by error") {
  const Api api = test::recording_api();
  test::recording().device_count = 0;
  CHECK(check_device(api, 0).code() == StatusCode::Unsupported);
  test::recording().fail["get_device_count"] = cudaErrorNoDevice;
  CHECK(check_device(api, 0).code() == StatusCode::Unsupported);
  CHECK(check_device(api, 0).message().starts_with("no GPU is visible"));
  CHECK(test::recording().last_error == cudaSuccess);
}

TEST_CASE("an ordinal that is no GPU is a DeviceMismatch naming both") {
  const Api api = test::recording_api();
  CHECK(check_device(api, 2).code() == StatusCode::DeviceMismatch);
  CHECK(check_device(api, 2).message() == "device 2 was asked for, but the GPUs are 0 to 1");
  CHECK(check_device(api, -1).code() == StatusCode::DeviceMismatch);
}

TEST_CASE("device_info gathers what identifies the GPU and its software") {
  const Api api = test::recording_api();
  const Result<DeviceInfo> info = device_info(api, 1);
  REQUIRE(info.ok());
  CHECK(info->name == "G");
  CHECK(info->ordinal == 1);
  CHECK(info->sm_count == cudaDevAttrMultiProcessorCount);
  CHECK(info->compute_major == cudaDevAttrComputeCapabilityMajor);
  CHECK(info->compute_minor == cudaDevAttrComputeCapabilityMinor);
  CHECK(info->l2_bytes == cudaDevAttrL2CacheSize);
  CHECK(info->driver_version == 13000);
  CHECK(info->runtime_version == 13000);
}

TEST_CASE("device_info reports the failing call") {
  for (const std::string call : {"runtime_get_version", "driver_get_version", "get_device_count",
                                 "device_get_attribute", "get_device_properties"}) {
    CAPTURE(call);
    const Api api = test::recording_api();
    test::recording().fail[call] = cudaErrorInvalidValue;
    CHECK(device_info(api, 0).status().code() == StatusCode::CudaError);
    CHECK(test::recording().last_error == cudaSuccess);
  }
}
