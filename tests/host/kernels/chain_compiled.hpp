#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "chain_device.hpp"
#include "kernels/chain_source.hpp"

namespace chain_test {

enum class Spills { None, Some };

/// What users of a machine with two cores wait for at most where a network is new.
constexpr double kMostCompileS = 3;

/// Seconds that compiling takes where nothing else runs. Other tests do, so of up to four times the
/// least counts.
inline double compile_seconds(const ai::cuda::NvrtcApi& nvrtc,
                              const ai::cuda::CompileRequest& request, double best_s) {
  for (int again = 0; again < 3 && best_s >= kMostCompileS; ++again) {
    const auto cubin = ai::cuda::compile(nvrtc, request);
    if (cubin) best_s = std::min(best_s, cubin->compile_s);
  }
  return best_s;
}

/// Each of `requests` compiles to a chain kernel, in less than 3 s and to one that keeps nothing in
/// local memory. Where some are allowed to, how long they take is left open, too.
inline void check_compiled(const std::vector<ai::cuda::CompileRequest>& requests,
                           Spills allowed = Spills::None) {
  using ai::kernels::chain::kKernelName;
  const auto nvrtc = ai::cuda::nvrtc_api();
  REQUIRE_MESSAGE(nvrtc.ok(), nvrtc.status().to_string());
  const auto compiled = ai::cuda::compile_all(**nvrtc, requests);
  REQUIRE(compiled.ok());
  REQUIRE(compiled->size() == requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    INFO(requests[i].name);
    const auto& cubin = (*compiled)[i];
    REQUIRE_MESSAGE(cubin.ok(), cubin.status().to_string());
    if (allowed == Spills::None) {
      CHECK(compile_seconds(**nvrtc, requests[i], cubin->compile_s) < kMostCompileS);
    }
    CHECK(cubin->image.find(kKernelName) != std::string::npos);
    CHECK_MESSAGE(cubin->log.find("warning") == std::string::npos, cubin->log);
    const auto uses = ai::cuda::read_resource_use(cubin->log);
    bool found = false;
    for (const ai::cuda::ResourceUse& use : uses) {
      found = found || (use.entry && use.function == kKernelName);
      if (allowed == Spills::Some) continue;
      CHECK(use.spill_store_bytes == 0);
      CHECK(use.spill_load_bytes == 0);
      CHECK(use.stack_bytes == 0);
    }
    CHECK(found);
  }
}

}  // namespace chain_test
