// The library as the first to use the GPU in a process: each case is a process of its own, which
// has never loaded a kernel, made a handle or allocated anything but operands.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "ai/gemm.hpp"
#include "child_program.hpp"

namespace {

struct FirstCall {
  const char* direction;
  ai::ActKind act;
  ai::BiasKind bias;
};

std::string run(const std::string& road, const FirstCall& call, const std::string& loading = {},
                const std::vector<std::string>& then = {}) {
  std::vector<std::string> arguments = {road, call.direction,
                                        std::to_string(static_cast<int>(call.act)),
                                        std::to_string(static_cast<int>(call.bias))};
  arguments.insert(arguments.end(), then.begin(), then.end());
  return gpu::run_beside("first_use_program", std::move(arguments), "CUDA_MODULE_LOADING", loading);
}

constexpr FirstCall kPlain{"forward", ai::ActKind::None, ai::BiasKind::None};
constexpr FirstCall kGradient{"backward", ai::ActKind::SiLU, ai::BiasKind::PerN};

TEST_CASE("A1: planning and capturing 32x32x32 is the first GPU work of a process") {
  CHECK(run("capture", kPlain) == "");
}

TEST_CASE("A1: a direct call is the first GPU work of a process") {
  CHECK(run("direct", kPlain) == "");
  CHECK(run("direct", kGradient) == "");
}

TEST_CASE("A1: a direct call inside the caller's capture is the first GPU work of a process") {
  for (const char* mode : {"global", "thread-local", "relaxed"}) {
    CAPTURE(mode);
    CHECK(run(mode, kPlain) == "");
  }
  CHECK(run("global", kGradient) == "");
}

TEST_CASE("A8: whatever is captured first, its kernels are loaded before, lazily or eagerly") {
  constexpr FirstCall kFirst[] = {
      {"forward", ai::ActKind::GELU, ai::BiasKind::PerM},
      {"forward", ai::ActKind::ReLU, ai::BiasKind::PerN},
      {"backward", ai::ActKind::None, ai::BiasKind::Scalar},  // CUB
      {"backward", ai::ActKind::Tanh, ai::BiasKind::PerM},
  };
  for (const FirstCall& call : kFirst) {
    CAPTURE(call.direction);
    CAPTURE(ai::to_string(call.act));
    CHECK(run("capture", call, "LAZY") == "");
  }
  CHECK(run("capture", kGradient, "EAGER") == "");
}

TEST_CASE("A8: every activation, bias and direction in a process that loads kernels lazily") {
  CHECK(run("capture", kGradient, "LAZY", {"then-all"}) == "");
  CHECK(run("direct", kGradient, "LAZY", {"then-all"}) == "");
  CHECK(run("global", kGradient, "LAZY", {"then-all"}) == "");
}

TEST_CASE("A8: every activation, bias and direction in a process that loads kernels eagerly") {
  CHECK(run("capture", kPlain, "EAGER", {"then-all"}) == "");
}

TEST_CASE("A8: replays and known direct calls end beside a kernel that does not") {
  CHECK(run("capture", kPlain, "LAZY", {"then-beside"}) == "");
  for (const char* road : {"capture", "direct", "thread-local"}) {
    CAPTURE(road);
    CHECK(run(road, kGradient, "LAZY", {"then-beside"}) == "");
  }
}

TEST_CASE(
    "B10: a process that has reset the device ends quietly, with direct calls that are graphs") {
  CHECK(run("direct", kPlain, "LAZY", {"then-reset"}) == "");
  CHECK(run("direct", kGradient, "LAZY", {"then-reset"}) == "");
}

}  // namespace
