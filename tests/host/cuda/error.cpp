#include "cuda/error.hpp"

#include <doctest/doctest.h>

#include "recording_api.hpp"

using ai::Status;
using ai::StatusCode;
using namespace ai::cuda;

TEST_CASE("success is ok and leaves the caller's pending error alone (D3)") {
  const Api api = test::recording_api();
  test::recording().last_error = cudaErrorInvalidDevice;
  CHECK(to_status(api, cudaSuccess, "cudaGraphLaunch").ok());
  CHECK(test::recording().last_error == cudaErrorInvalidDevice);
}

TEST_CASE("every class of CUDA error has its status code") {
  const Api api = test::recording_api();
  const struct {
    cudaError_t error;
    StatusCode code;
  } cases[] = {
      {cudaErrorMemoryAllocation, StatusCode::OutOfMemory},
      {cudaErrorStreamCaptureUnsupported, StatusCode::CaptureInvalidated},
      {cudaErrorStreamCaptureInvalidated, StatusCode::CaptureInvalidated},
      {cudaErrorStreamCaptureMerge, StatusCode::CaptureInvalidated},
      {cudaErrorStreamCaptureUnmatched, StatusCode::CaptureInvalidated},
      {cudaErrorStreamCaptureUnjoined, StatusCode::CaptureInvalidated},
      {cudaErrorStreamCaptureIsolation, StatusCode::CaptureInvalidated},
      {cudaErrorStreamCaptureImplicit, StatusCode::CaptureInvalidated},
      {cudaErrorCapturedEvent, StatusCode::CaptureInvalidated},
      {cudaErrorStreamCaptureWrongThread, StatusCode::CaptureInvalidated},
      {cudaErrorNoDevice, StatusCode::Unsupported},
      {cudaErrorInsufficientDriver, StatusCode::Unsupported},
      {cudaErrorStubLibrary, StatusCode::Unsupported},
      {cudaErrorNoKernelImageForDevice, StatusCode::Unsupported},
      {cudaErrorInvalidDeviceFunction, StatusCode::Unsupported},
      {cudaErrorUnsupportedPtxVersion, StatusCode::Unsupported},
      {cudaErrorJitCompilerNotFound, StatusCode::Unsupported},
      {cudaErrorNotSupported, StatusCode::Unsupported},
      {cudaErrorInvalidValue, StatusCode::CudaError},
      {cudaErrorIllegalAddress, StatusCode::CudaError},
      {cudaErrorCudartUnloading, StatusCode::CudaError},
  };
  for (const auto& [error, code] : cases) {
    CAPTURE(error);
    CHECK(to_status(api, error, "cudaGraphLaunch").code() == code);
  }
}

TEST_CASE("a message names the call, the code and CUDA's text") {
  const Api api = test::recording_api();
  CHECK(to_status(api, cudaErrorInvalidValue, "cudaGraphLaunch").message() ==
        "cudaGraphLaunch failed: cudaErrorInvalidValue (1): invalid argument");
}

TEST_CASE("the table's name of a call is reported as CUDA's") {
  const Api api = test::recording_api();
  const auto name = [&](const char* call) {
    const std::string message = to_status(api, cudaErrorInvalidValue, call).message();
    return message.substr(0, message.find(' '));
  };
  CHECK(name("graph_instantiate") == "cudaGraphInstantiate");
  CHECK(name("memset_2d_async") == "cudaMemset2DAsync");
  CHECK(name("stream_begin_capture_to_graph") == "cudaStreamBeginCaptureToGraph");
  CHECK(name("cub::DeviceReduce::Reduce") == "cub::DeviceReduce::Reduce");
}

TEST_CASE("a reported error is taken out of the last-error slot") {
  const Api api = test::recording_api();
  test::recording().last_error = cudaErrorInvalidValue;
  CHECK_FALSE(to_status(api, cudaErrorInvalidValue, "cudaGraphLaunch").ok());
  CHECK(test::recording().last_error == cudaSuccess);
}

TEST_CASE("a sticky error says that it may stem from earlier work, others do not") {
  const Api api = test::recording_api();
  const auto says_so = [&](cudaError_t code) {
    return to_status(api, code, "cudaGraphLaunch").message().find("earlier work") !=
           std::string::npos;
  };
  CHECK(says_so(cudaErrorIllegalAddress));
  CHECK(says_so(cudaErrorMisalignedAddress));
  CHECK(says_so(cudaErrorLaunchFailure));
  CHECK(says_so(cudaErrorAssert));
  CHECK_FALSE(says_so(cudaErrorInvalidValue));
  CHECK_FALSE(says_so(cudaErrorMemoryAllocation));
}

TEST_CASE("an error of initialisation says that a fork may have come too late (B10)") {
  const Api api = test::recording_api();
  const Status status = to_status(api, cudaErrorInitializationError, "cudaGetDevice");
  CHECK(status.code() == StatusCode::CudaError);
  CHECK(status.message().find("forked after CUDA was first used") != std::string::npos);
  CHECK(to_status(api, cudaErrorInvalidValue, "c").message().find("fork") == std::string::npos);
}

TEST_CASE("the macro leaves the function with the failing call's status") {
  const Api api = test::recording_api();
  const auto body = [&]() -> Status {
    AI_CUDA_RETURN_IF_ERROR(api, set_device, 1);
    AI_CUDA_RETURN_IF_ERROR(api, stream_synchronize, nullptr);
    return {};
  };
  CHECK(body().ok());
  test::recording().fail["set_device"] = cudaErrorInvalidDevice;
  test::recording().calls.clear();
  CHECK(body().message().starts_with("cudaSetDevice failed"));
  CHECK(test::recording().count("stream_synchronize") == 0);
}
