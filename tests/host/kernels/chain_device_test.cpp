#include "chain_device.hpp"

#include "fuse_support.hpp"

using ai::kernels::chain::target_device;
using ai::kernels::chain::TargetDevice;

namespace {

TargetDevice device_of(int major, int minor) {
  fake_chain::state().major = major;
  fake_chain::state().minor = minor;
  const auto device = target_device(fake_device::api(), 0);
  REQUIRE(device.ok());
  return *device;
}

}  // namespace

TEST_CASE("what the kernel is told of a device") {
  const auto backend = fuse_test::fresh_backend();
  const TargetDevice hopper = device_of(9, 0);
  CHECK(hopper.compute_capability == 90);
  CHECK(hopper.arch_specific);
  CHECK(hopper.reason_against() == "");
  CHECK(hopper.machine.limits.shared_bytes == 227 << 10);
  CHECK(hopper.machine.limits.registers == 255);
  CHECK(hopper.machine.limits.cluster == 16);
  CHECK(hopper.machine.multiprocessors == 132);
  CHECK(hopper.machine.clock_hz == doctest::Approx(1.98e9));
  CHECK(hopper.machine.l2_bytes_per_s == doctest::Approx(132 * 1.98e9 * 32));
  for (const int major : {10, 12}) {
    const TargetDevice later = device_of(major, 0);
    CHECK_FALSE(later.arch_specific);
    CHECK(later.machine.limits.cluster == 16);
  }
  for (const int minor : {0, 6, 9}) {
    const TargetDevice earlier = device_of(8, minor);
    CHECK(earlier.compute_capability == 80 + minor);
    CHECK_FALSE(earlier.arch_specific);
    CHECK(earlier.machine.limits.cluster == 1);
    CHECK(earlier.reason_against() == "");
  }
  CHECK(device_of(7, 5).reason_against() == "it needs compute capability 8.0, this device has 7.5");
}

TEST_CASE("a device that tells no clock rate has one all the same") {
  const auto backend = fuse_test::fresh_backend();
  fake_chain::state().kilohertz = 0;
  CHECK(device_of(9, 0).machine.clock_hz > 1e9);
}
