#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
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

inline Cubins compiled(std::span<const ai::cuda::CompileRequest> requests) {
  const auto nvrtc = ai::cuda::nvrtc_api();
  REQUIRE_MESSAGE(nvrtc.ok(), nvrtc.status().to_string());
  auto cubins = ai::cuda::compile_all(**nvrtc, requests);
  REQUIRE(cubins.ok());
  REQUIRE(cubins->size() == requests.size());
  return std::move(cubins).value();
}

/// What compiling took, added up.
inline double seconds_of(std::span<const ai::Result<ai::cuda::Cubin>> cubins) {
  double seconds = 0;
  for (const auto& cubin : cubins) seconds += cubin.ok() ? cubin->compile_s : 0;
  return seconds;
}

/// The same where nothing else runs, of `requests`, which took `seconds`. Other tests do run, so
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
