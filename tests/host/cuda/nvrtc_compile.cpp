#include "cuda/nvrtc_compile.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fake_nvrtc.hpp"

using ai::Result;
using ai::StatusCode;
using namespace ai::cuda;
using ai::cuda::test::FakeNvrtc;

namespace {

CompileRequest request_of(std::string source) {
  return {.source = std::move(source),
          .name = "tiny.cu",
          .options = {"-std=c++20"},
          .compute_capability = 90,
          .arch_specific = true};
}

CompileRequest tiny(int number) {
  return request_of("extern \"C\" __global__ void tiny_" + std::to_string(number) +
                    "(float* x) { x[threadIdx.x] = " + std::to_string(number) + "; }");
}

const NvrtcApi& real() {
  const Result<const NvrtcApi*> api = nvrtc_api();
  REQUIRE_MESSAGE(api.ok(), api.status().to_string());
  return **api;
}

}  // namespace

TEST_CASE("the architecture is a real one") {
  CompileRequest request = tiny(1);
  CHECK(architecture_option(request) == "-arch=sm_90a");
  request.arch_specific = false;
  request.compute_capability = 120;
  CHECK(architecture_option(request) == "-arch=sm_120");
}

TEST_CASE("a kernel compiles to an image, and its log tells what it uses") {
  for (const bool hopper : {true, false}) {
    CompileRequest request = tiny(1);
    request.headers = {{.name = "seven.hpp", .text = "constexpr float kSeven = 7;"}};
    request.source = "#include \"seven.hpp\"\n__shared__ float s[64];\n" + request.source +
                     "extern \"C\" __global__ void two(float* x) {"
                     " s[threadIdx.x] = x[threadIdx.x]; __syncthreads();"
                     " x[threadIdx.x] = kSeven * s[63 - threadIdx.x]; }";
    request.compute_capability = hopper ? 90 : 80;
    request.arch_specific = hopper;
    const Result<Cubin> cubin = compile(real(), request);
    REQUIRE_MESSAGE(cubin.ok(), cubin.status().to_string());
    CHECK(
        cubin->image.starts_with("\x7f"
                                 "ELF"));
    CHECK(cubin->log.find(hopper ? "'sm_90a'" : "'sm_80'") != std::string::npos);
    CHECK(cubin->log.find('\0') == std::string::npos);
    CHECK(cubin->compile_s > 0);
    CHECK(cubin->nvrtc_version / 1000 == 13);
    const std::vector<ResourceUse> uses = read_resource_use(cubin->log);
    REQUIRE(uses.size() == 2);
    const auto two = std::find_if(uses.begin(), uses.end(),
                                  [](const ResourceUse& use) { return use.function == "two"; });
    REQUIRE(two != uses.end());
    CHECK(two->entry);
    CHECK(two->registers > 0);
    CHECK(two->shared_bytes == 256);
    CHECK(two->spill_store_bytes == 0);
  }
}

TEST_CASE("spills are in the log of the real compiler") {
  std::string body;
  for (int i = 0; i < 64; ++i) {
    body += "const float v" + std::to_string(i) + " = x[" + std::to_string(i * 1024) +
            " + threadIdx.x];";
  }
  body += "__syncthreads();";
  for (int i = 0; i < 64; ++i) {
    body += "x[" + std::to_string(i * 1024) + " + threadIdx.x] = v" + std::to_string(63 - i) +
            " * v" + std::to_string(i * 7 % 64) + ";";
  }
  const Result<Cubin> cubin = compile(
      real(), request_of("extern \"C\" __global__ void __launch_bounds__(1024, 2) k(float* x) {" +
                         body + "}"));
  REQUIRE_MESSAGE(cubin.ok(), cubin.status().to_string());
  const std::vector<ResourceUse> uses = read_resource_use(cubin->log);
  REQUIRE(uses.size() == 1);
  CHECK(uses[0].registers == 32);
  CHECK(uses[0].spill_store_bytes > 0);
  CHECK(uses[0].spill_load_bytes > 0);
}

TEST_CASE("a source that does not compile names itself and the compiler's first lines") {
  std::string source = "__global__ void k() { nonsense; }\n";
  for (int i = 0; i < 50; ++i) source += "bad line" + std::to_string(i) + ";\n";
  const Result<Cubin> cubin = compile(real(), request_of(source));
  REQUIRE_FALSE(cubin.ok());
  CHECK(cubin.status().code() == StatusCode::CudaError);
  const std::string& message = cubin.status().message();
  CHECK_MESSAGE(
      message.starts_with(
          "tiny.cu: nvrtcCompileProgram failed: NVRTC_ERROR_COMPILATION (6): tiny.cu(1): error:"),
      message);
  CHECK(message.find("\"nonsense\"") != std::string::npos);
  CHECK(std::count(message.begin(), message.end(), '\n') < 8);
  CHECK(message.size() < 1200);
}

TEST_CASE("an option that NVRTC does not know is told") {
  CompileRequest request = tiny(1);
  request.options.emplace_back("--no-such-option");
  const Result<Cubin> cubin = compile(real(), request);
  REQUIRE_FALSE(cubin.ok());
  CHECK(cubin.status().message().find("no-such-option") != std::string::npos);
}

TEST_CASE("several compile at a time, in order, and failures leave the others as they are") {
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(tiny(i));
  requests.insert(requests.begin(), request_of("nonsense first"));
  requests.insert(requests.begin() + 3, request_of("nonsense second"));
  for (const unsigned threads : {0U, 1U, 4U}) {
    const auto outcomes = compile_all(real(), requests, threads);
    REQUIRE(outcomes.ok());
    REQUIRE(outcomes->size() == 6);
    int number = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      const Result<Cubin>& outcome = (*outcomes)[i];
      CHECK(outcome.ok() == (i != 0 && i != 3));
      if (!outcome.ok()) continue;
      CHECK(outcome->image.find("tiny_" + std::to_string(number)) != std::string::npos);
      ++number;
    }
  }
  CHECK(compile_all(real(), {})->empty());
}

TEST_CASE("the program is destroyed on every road") {
  const NvrtcApi nvrtc = FakeNvrtc::api();
  for (const std::string_view function :
       {"version", "create", "compile", "size", "cubin", "log size", "log"}) {
    CAPTURE(function);
    const bool only_log = function.starts_with("log");
    FakeNvrtc::reset();
    FakeNvrtc::fails = function;
    const Result<Cubin> failed = compile(nvrtc, tiny(1));
    CHECK(failed.ok() == only_log);
    if (!failed.ok()) {
      CHECK(failed.status().code() == StatusCode::CudaError);
      CHECK(failed.status().message().starts_with("tiny.cu: nvrtc"));
    }
    CHECK(FakeNvrtc::alive == 0);
    FakeNvrtc::reset();
    FakeNvrtc::throws = function;
    CHECK(compile(nvrtc, tiny(1)).status().code() == StatusCode::OutOfMemory);
    CHECK(FakeNvrtc::alive == 0);
  }
  FakeNvrtc::reset();
  const Result<Cubin> good = compile(nvrtc, tiny(1));
  REQUIRE(good.ok());
  CHECK(good->image == tiny(1).source);
  CHECK(good->log == "the log");
  CHECK(good->nvrtc_version == 13020);
  CHECK(compile(nvrtc, request_of("")).status().message() ==
        "tiny.cu: nvrtcGetCUBINSize gave 0 bytes: the log");
  CHECK(compile(nvrtc, request_of("bad")).status().message() ==
        "tiny.cu: nvrtcCompileProgram failed: THE ERROR (6): the log");
  CHECK(FakeNvrtc::alive == 0);
}
