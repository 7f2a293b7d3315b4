#include "kernels/dry_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <new>
#include <string>

#include "fake_device.hpp"

using ai::Status;
using ai::StatusCode;

namespace {

class Enqueued final : public ai::Step {
 public:
  explicit Enqueued(std::function<Status()> enqueue)
      : Step("step", {}, {}), enqueue_(std::move(enqueue)) {}
  Status enqueue(const ai::AddressMap&, ai::Stream) override { return enqueue_(); }

 private:
  std::function<Status()> enqueue_;
};

Status dry_run(std::function<Status()> enqueue) {
  Enqueued step(std::move(enqueue));
  return ai::kernels::dry_run(fake_device::api(), step, {});
}

long captures() {
  const std::vector<std::string>& calls = fake_device::state().calls;
  const auto begun = std::count(calls.begin(), calls.end(), "begin");
  CHECK(begun == std::count(calls.begin(), calls.end(), "end"));
  CHECK(fake_device::state().graphs == 0);
  CHECK(fake_device::state().mode == cudaStreamCaptureModeThreadLocal);
  return begun;
}

Status works() {
  return {};
}
Status refuses() {
  return {StatusCode::Unsupported, "it is refused"};
}

}  // namespace

TEST_CASE("a dry run that another thread breaks is begun again, four times at most [A6]") {
  (void)fake_device::fresh_backend();
  SUBCASE("the fourth works") {
    fake_device::state().end_errors.assign(3, cudaErrorStreamCaptureInvalidated);
    CHECK(dry_run(&works).ok());
  }
  SUBCASE("none works") {
    fake_device::state().end_errors.assign(9, cudaErrorStreamCaptureInvalidated);
    CHECK(dry_run(&works).code() == StatusCode::CaptureInvalidated);
  }
  CHECK(captures() == 4);
}

TEST_CASE("a dry run whose step is refused is not begun again") {
  (void)fake_device::fresh_backend();
  CHECK(dry_run(&refuses).message() == "it is refused");
  CHECK(captures() == 1);
}

TEST_CASE("a capture that ends in another error is reported and not begun again") {
  (void)fake_device::fresh_backend();
  fake_device::state().end_errors = {cudaErrorIllegalAddress};
  const Status status = dry_run(&works);
  CHECK(status.code() == StatusCode::CudaError);
  CHECK(status.message().find("cudaStreamEndCapture failed") == 0);
  CHECK(captures() == 1);
}

TEST_CASE("a broken capture is reported as such, after what the step said first") {
  (void)fake_device::fresh_backend();
  fake_device::state().end_errors.assign(9, cudaErrorStreamCaptureInvalidated);
  const Status status = dry_run(&refuses);
  CHECK(status.code() == StatusCode::CaptureInvalidated);
  CHECK(status.message().find("it is refused; cudaStreamEndCapture failed") == 0);
}

TEST_CASE("a step that throws leaves no capture open") {
  (void)fake_device::fresh_backend();
  CHECK_THROWS_AS((void)dry_run([]() -> Status { throw std::bad_alloc(); }), std::bad_alloc);
  CHECK(captures() == 1);
}
