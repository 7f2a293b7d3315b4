#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "chain_device.hpp"
#include "kernels/chain_source.hpp"

namespace chain_test {

enum class Spills { None, Some };

/// All of `requests` compile to a chain kernel each, one that keeps nothing in local memory unless
/// that is allowed.
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
