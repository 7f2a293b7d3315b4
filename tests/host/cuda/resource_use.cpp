// What ptxas 13.0 says with -v; the spills of the function that is called are made up.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/nvrtc_compile.hpp"

using ai::cuda::read_resource_use;
using ai::cuda::ResourceUse;

namespace {

constexpr std::string_view kSpills =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'spills' for 'sm_90a'\n"
    "ptxas info    : Function properties for spills\n"
    "ptxas         .     264 bytes stack frame, 312 bytes spill stores, 316 bytes spill loads\n"
    "ptxas info    : Used 32 registers, used 1 barriers, 264 bytes cumulative stack size\n"
    "ptxas info    : Compile time = 14.288 ms\n";
constexpr std::string_view kCalls =
    "ptxas info    : Compiling entry function 'calls' for 'sm_90a'\n"
    "ptxas info    : Function properties for calls\n"
    "ptxas         .     160 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 31 registers, used 0 barriers, 160 bytes cumulative stack size\n"
    "ptxas info    : Compile time = 14.209 ms\n"
    "ptxas info    : Function properties for _Z6helperfi\n"
    "ptxas         .     0 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads\n";
constexpr std::string_view kPlain =
    "ptxas info    : Compiling entry function 'plain' for 'sm_90a'\n"
    "ptxas info    : Function properties for plain\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 10 registers, used 1 barriers, 1024 bytes smem\n"
    "ptxas info    : Compile time = 1.552 ms\n";

const ResourceUse kOfSpills{.function = "spills",
                            .entry = true,
                            .registers = 32,
                            .stack_bytes = 264,
                            .spill_store_bytes = 312,
                            .spill_load_bytes = 316};
const ResourceUse kOfPlain{
    .function = "plain", .entry = true, .registers = 10, .shared_bytes = 1024};

}  // namespace

TEST_CASE("a kernel's registers, stack, spills and shared bytes are read") {
  CHECK(read_resource_use(kSpills) == std::vector{kOfSpills});
  CHECK(read_resource_use(kPlain) == std::vector{kOfPlain});
}

TEST_CASE("several functions stand in the log's order, and a called one's spills are its own") {
  const std::string log = std::string(kSpills) + std::string(kCalls) + std::string(kPlain);
  const std::vector<ResourceUse> uses = read_resource_use(log);
  REQUIRE(uses.size() == 4);
  CHECK(uses[0] == kOfSpills);
  CHECK(uses[1] ==
        ResourceUse{.function = "calls", .entry = true, .registers = 31, .stack_bytes = 160});
  CHECK(uses[2] ==
        ResourceUse{.function = "_Z6helperfi", .spill_store_bytes = 8, .spill_load_bytes = 16});
  CHECK(uses[3] == kOfPlain);
}

TEST_CASE("a log without a report names no function") {
  CHECK(read_resource_use("").empty());
  CHECK(read_resource_use("ptxas info    : 0 bytes gmem").empty());
  CHECK(read_resource_use("chain.cu(3): warning #177-D: variable \"x\" was declared\n\n").empty());
  CHECK(read_resource_use("ptxas info    : Used 10 registers\n").empty());
}

TEST_CASE("a log may be cut anywhere") {
  const std::string log = std::string(kCalls) + std::string(kPlain);
  for (std::size_t length = 0; length < log.size(); ++length) {
    CHECK(read_resource_use(std::string_view(log).substr(0, length)).size() <= 4);
  }
}
