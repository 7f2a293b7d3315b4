#include "chain_device.hpp"

#include "core/text.hpp"
#include "cuda/error.hpp"

namespace ai::kernels::chain {
namespace {

constexpr int kLeastCapability = 80;
constexpr int kClusterCapability = 90;
constexpr int kMostCluster = 16;
constexpr int kRegisters = 255;
constexpr double kFallbackHz = 1.5e9;  // some virtual devices tell no clock rate
// An H200 reads 7.4 to 8.2 TB/s from its L2, with 132 multiprocessors at 1.98 GHz.
constexpr double kL2BytesPerClock = 32;  // of a multiprocessor

}  // namespace

std::string TargetDevice::reason_against() const {
  if (compute_capability >= kLeastCapability) return {};
  return text("it needs compute capability ", kLeastCapability / 10, ".0, this device has ",
              compute_capability / 10, ".", compute_capability % 10);
}

Result<TargetDevice> target_device(const cuda::Api& api, int device) noexcept {
  TargetDevice target;
  Machine& machine = target.machine;
  int major = 0;
  int minor = 0;
  int kilohertz = 0;
  const struct {
    int* value;
    cudaDeviceAttr attribute;
  } attributes[] = {
      {&major, cudaDevAttrComputeCapabilityMajor},
      {&minor, cudaDevAttrComputeCapabilityMinor},
      {&machine.limits.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin},
      {&machine.multiprocessors, cudaDevAttrMultiProcessorCount},
      {&kilohertz, cudaDevAttrClockRate},
  };
  for (const auto& [value, attribute] : attributes) {
    AI_CUDA_RETURN_IF_ERROR(api, device_get_attribute, value, attribute, device);
  }
  target.compute_capability = 10 * major + minor;
  target.arch_specific = target.compute_capability == kClusterCapability;
  machine.limits.registers = kRegisters;
  machine.limits.cluster = target.compute_capability >= kClusterCapability ? kMostCluster : 1;
  machine.clock_hz = kilohertz > 0 ? 1e3 * kilohertz : kFallbackHz;
  machine.l2_bytes_per_s = kL2BytesPerClock * machine.clock_hz * machine.multiprocessors;
  return target;
}

cuda::CompileRequest request_for(const Network& network, const Form& form,
                                 const TargetDevice& device) {
  cuda::CompileRequest request;
  request.source = source_of(network, form);
  request.name = "chain.cu";
  for (const Header& header : headers()) {
    request.headers.push_back({header.name, header.text});
  }
  request.options.assign(options().begin(), options().end());
  // Left to itself the compiler gives its threads fewer registers than a multiprocessor has, and
  // they wait for shared memory.
  if (std::holds_alternative<TilesShape>(form)) request.options.push_back("--maxrregcount=255");
  request.compute_capability = device.compute_capability;
  request.arch_specific = device.arch_specific;
  return request;
}

}  // namespace ai::kernels::chain
