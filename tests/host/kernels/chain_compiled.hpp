#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <ctime>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "chain_device.hpp"
#include "kernels/chain_source.hpp"

namespace chain_test {

enum class Spills { None, Some };
using Cubins = std::vector<ai::Result<ai::cuda::Cubin>>;

/// What users of a machine with two cores wait for at most where a network is new.
#if defined(__SANITIZE_ADDRESS__)
constexpr double kMostCompileS = 300;  // the compiler's memory is watched, too
#else
constexpr double kMostCompileS = 3;
#endif

/// Seconds for which this thread has had a core.
inline double core_seconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// By two threads. Their compile_s is how long each kept a core busy, as other tests run meanwhile.
inline Cubins compiled(std::span<const ai::cuda::CompileRequest> requests) {
  const auto nvrtc = ai::cuda::nvrtc_api();
  REQUIRE_MESSAGE(nvrtc.ok(), nvrtc.status().to_string());
  Cubins cubins(requests.size(), ai::Status(ai::StatusCode::OutOfMemory, {}));
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < requests.size(); i = next++) {
      const double start = core_seconds();
      cubins[i] = ai::cuda::compile(**nvrtc, requests[i]);
      if (cubins[i]) cubins[i]->compile_s = core_seconds() - start;
    }
  };
  std::jthread other(work);
  work();
  other.join();
  return cubins;
}

/// What compiling took, added up.
inline double seconds_of(std::span<const ai::Result<ai::cuda::Cubin>> cubins) {
  double seconds = 0;
  for (const auto& cubin : cubins) seconds += cubin.ok() ? cubin->compile_s : 0;
  return seconds;
}

/// The same at its best, of `requests`, which took `seconds`. Cores are shared by other tests, so
/// where that is not below `most` the least of up to four times counts.
inline double least_seconds(std::span<const ai::cuda::CompileRequest> requests, double seconds,
                            double most) {
  for (int again = 0; again < 3 && seconds >= most; ++again) {
    seconds = std::min(seconds, seconds_of(compiled(requests)));
  }
  return seconds;
}

/// A chain kernel, which keeps nothing in local memory.
inline void check_kernel(const ai::Result<ai::cuda::Cubin>& cubin, Spills allowed = Spills::None) {
  using ai::kernels::chain::kKernelName;
  REQUIRE_MESSAGE(cubin.ok(), cubin.status().to_string());
  CHECK(cubin->image.find(kKernelName) != std::string::npos);
  CHECK_MESSAGE(cubin->log.find("warning") == std::string::npos, cubin->log);
  bool found = false;
  for (const ai::cuda::ResourceUse& use : ai::cuda::read_resource_use(cubin->log)) {
    found = found || (use.entry && use.function == kKernelName);
    if (allowed == Spills::Some) continue;
    CHECK(use.spill_store_bytes == 0);
    CHECK(use.spill_load_bytes == 0);
    CHECK(use.stack_bytes == 0);
  }
  CHECK(found);
}

/// Each of `requests` compiles to a chain kernel, in less than 3 s and to one that keeps nothing in
/// local memory. Where some are allowed to, how long they take is left open, too.
inline void check_compiled(const std::vector<ai::cuda::CompileRequest>& requests,
                           Spills allowed = Spills::None) {
  const Cubins cubins = compiled(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    INFO(requests[i].name);
    check_kernel(cubins[i], allowed);
    if (allowed == Spills::Some) continue;
    const double seconds = least_seconds({&requests[i], 1}, cubins[i]->compile_s, kMostCompileS);
    CHECK(seconds < kMostCompileS);
  }
}

}  // namespace chain_test
