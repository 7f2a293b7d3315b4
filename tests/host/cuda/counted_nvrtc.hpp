#pragma once

#include <string>
#include <utility>

#include "cuda/cubin_recall.hpp"
#include "fake_nvrtc.hpp"

namespace ai::cuda::test {

/// Loads FakeNvrtc, or fails as told.
struct CountedNvrtc {
  static inline int loads = 0;
  static inline Status missing = {};

  static void reset() {
    loads = 0;
    missing = {};
    FakeNvrtc::reset();
  }
  static Result<const NvrtcApi*> load() noexcept {
    ++loads;
    if (!missing.ok()) return missing;
    static const NvrtcApi table = FakeNvrtc::api();
    return &table;
  }
};

/// Its image is the source.
inline CompileRequest request(std::string source) {
  CompileRequest made;
  made.source = std::move(source);
  made.name = "it.cu";
  made.compute_capability = 90;
  return made;
}

}  // namespace ai::cuda::test
