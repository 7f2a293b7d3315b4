#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ai/status.hpp"
#include "cuda/nvrtc_api.hpp"

namespace ai::cuda {

/// One source for one architecture.
struct CompileRequest {
  /// A file that the source includes.
  struct Header {
    std::string name;
    std::string text;
  };
  std::string source;
  std::string name;  ///< "chain.cu": what messages call the source
  std::vector<Header> headers = {};
  std::vector<std::string> options = {};  ///< all but the architecture and ptxas's report
  int compute_capability = 0;             ///< 90 for 9.0, as of the device
  bool arch_specific = false;             ///< sm_90a: also what later devices do not have
};

/// Machine code as the driver loads it.
struct Cubin {
  std::string image = {};
  std::string log = {};   ///< the compiler's, with ptxas's report of every function
  int nvrtc_version = 0;  ///< that made it: 13010 for 13.1
  double compile_s = 0;
};

/// "-arch=sm_90a": a real architecture, so that the driver has nothing left to compile.
[[nodiscard]] std::string architecture_option(const CompileRequest& request);

/// Compiles. A failure's message begins with the request's name and ends with the first lines of
/// the compiler's log, where there is one. Thread-safe.
[[nodiscard]] Result<Cubin> compile(const NvrtcApi& nvrtc, const CompileRequest& request) noexcept;

/// Compiles all, several at a time: on `threads` threads, the caller's among them, but no more than
/// the machine has; 0: as many as it has. Outcomes stand in the order of the requests, and the
/// failure of one leaves the others as they are. The call itself fails with OutOfMemory only.
[[nodiscard]] Result<std::vector<Result<Cubin>>> compile_all(
    const NvrtcApi& nvrtc, std::span<const CompileRequest> requests, unsigned threads = 0) noexcept;

/// What one function uses of the hardware.
struct ResourceUse {
  std::string function = {};  ///< as in the image, mangled where C++ mangles it
  bool entry = false;         ///< a kernel; else a function that was not inlined: no registers told
  int registers = 0;
  int stack_bytes = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int shared_bytes = 0;  ///< static ones
  bool operator==(const ResourceUse&) const = default;
};

/// Reads the report of `ptxas -v` out of a log, in its order; lines of another kind are passed
/// over. May throw std::bad_alloc.
[[nodiscard]] std::vector<ResourceUse> read_resource_use(std::string_view log);

}  // namespace ai::cuda
