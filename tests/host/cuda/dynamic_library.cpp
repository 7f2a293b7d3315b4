#include "cuda/dynamic_library.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cuda/load_once.hpp"
#include "cuda/lt_api.hpp"
#include "cuda/nvrtc_api.hpp"
#include "fake_loader.hpp"

using ai::Result;
using ai::Status;
using ai::StatusCode;
using namespace ai::cuda;
using namespace ai::cuda::test;

TEST_CASE("a library that the process has already is taken, whatever the environment says (E3)") {
  const LoaderApi loader = fake_loader();
  world.loaded = {"libthing.so.13"};
  world.variables["THING_LIBRARY"] = "/nowhere/libthing.so.13";
  CHECK(open_library(kName, loader).ok());
  CHECK(world.opened.empty());
}

TEST_CASE("a file named by the environment is the only one tried") {
  const LoaderApi loader = fake_loader();
  world.files = {"/mine/thing.so", "libthing.so.13"};
  world.variables["THING_LIBRARY"] = "/mine/thing.so";
  CHECK(open_library(kName, loader)->place == "/mine/thing.so");

  world.variables["THING_LIBRARY"] = "/nowhere/thing.so";
  world.opened.clear();
  const Status status = open_library(kName, loader).status();
  CHECK(status.code() == StatusCode::Unsupported);
  CHECK(world.opened == std::vector<std::string>{"/nowhere/thing.so"});
  CHECK(contains(status.message(), "libthing.so.13"));
  CHECK(contains(status.message(), "major version 13"));
  CHECK(contains(status.message(), "THING_LIBRARY"));
  CHECK(contains(status.message(), "/nowhere/thing.so: cannot open it"));
}

TEST_CASE("places are tried in order and the search ends at the first that opens") {
  const LoaderApi loader = fake_loader();
  world.variables["CUDA_HOME"] = "/home_cuda";
  world.variables["CUDA_PATH"] = "/path_cuda";
  const std::vector<std::string> places = library_places(kName, loader);
  const std::vector<std::string> first{
      "libthing.so.13", "/home_cuda/lib64/libthing.so.13", "/home_cuda/lib/libthing.so.13",
      "/path_cuda/lib64/libthing.so.13", "/path_cuda/lib/libthing.so.13"};
  REQUIRE(places.size() > first.size());
  CHECK(std::equal(first.begin(), first.end(), places.begin()));
  for (const char* place : {"/usr/local/cuda/lib64/libthing.so.13",
                            "/usr/local/cuda/targets/x86_64-linux/lib/libthing.so.13"}) {
    CHECK(std::count(places.begin(), places.end(), place) == 1);
  }

  world.files = {"/path_cuda/lib/libthing.so.13"};
  CHECK(open_library(kName, loader)->place == "/path_cuda/lib/libthing.so.13");
  CHECK(world.opened == first);
}

TEST_CASE("a Conda environment's own libraries come before the system's toolkit (E3)") {
  const LoaderApi loader = fake_loader();
  world.variables["CUDA_PATH"] = "/path_cuda";
  world.variables["CONDA_PREFIX"] = "/conda";
  const std::vector<std::string> places = library_places(kName, loader);
  REQUIRE(places.size() > 4);
  CHECK(places[2] == "/path_cuda/lib/libthing.so.13");
  CHECK(places[3] == "/conda/lib/libthing.so.13");
}

TEST_CASE("a library found nowhere is one error with every place and the loader's words (E3)") {
  const LoaderApi loader = fake_loader();
  world.variables["CUDA_HOME"] = "/home_cuda";
  const Status status = open_library(kName, loader).status();
  CHECK(status.code() == StatusCode::Unsupported);
  CHECK(contains(status.message(), "libthing.so.13"));
  CHECK(contains(status.message(), "set THING_LIBRARY"));
  CHECK(world.opened == library_places(kName, loader));
  for (const std::string& place : world.opened) {
    CHECK(contains(status.message(), "\n  " + place + ": cannot open it"));
  }
}

TEST_CASE("another version that lies where the search went is mentioned (E3)") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path / "lib64");
  for (const char* file : {"libthing.so.12", "libthing.so.12.1.2", "libthing.so", "other.so.12"}) {
    std::ofstream(folder.path / "lib64" / file) << "x";
  }
  const LoaderApi loader = fake_loader();
  world.variables["CUDA_HOME"] = folder.path.string();
  const std::string message = open_library(kName, loader).status().message();
  const std::string found = "found another version: ";
  CHECK(contains(message, found + (folder.path / "lib64" / "libthing.so.12").string()));
  CHECK(message.find(found) == message.rfind(found));
}

TEST_CASE("a cuBLASLt or NVRTC of another major version is refused, naming both (E3)") {
  const LoaderApi loader = fake_loader();
  world.files = {"libcublasLt.so.13", "libnvrtc.so.13"};
  CHECK(load_lt_api(loader).ok());
  CHECK(load_nvrtc_api(loader).ok());
  world.version = 120400;
  const Status lt = load_lt_api(loader).status();
  CHECK(lt.code() == StatusCode::Unsupported);
  CHECK(lt.message() ==
        "cuBLASLt 12.4.0 (libcublasLt.so.13) was loaded, but major version 13 is wanted");
  const Status nvrtc = load_nvrtc_api(loader).status();
  CHECK(nvrtc.code() == StatusCode::Unsupported);
  CHECK(nvrtc.message() ==
        "NVRTC 12.4 (libnvrtc.so.13) was loaded, but major version 13 is wanted");
}

TEST_CASE("a table and the lack of one are remembered, a shortage of memory is not (A2)") {
  static int loads = 0;
  static StatusCode failure = StatusCode::Ok;
  loads = 0;
  failure = StatusCode::OutOfMemory;
  LoadOnce<int> once([](const LoaderApi&) noexcept -> Result<int> {
    ++loads;
    if (failure != StatusCode::Ok) return Status(failure, "");
    return 7;
  });
  const LoaderApi loader = fake_loader();
  CHECK(once.get(loader).status().code() == StatusCode::OutOfMemory);
  SUBCASE("it works in the end") {
    failure = StatusCode::Ok;
    const Result<const int*> table = once.get(loader);
    REQUIRE(table.ok());
    CHECK(**table == 7);
    failure = StatusCode::OutOfMemory;
    CHECK(*once.get(loader) == *table);
  }
  SUBCASE("it never will") {
    failure = StatusCode::Unsupported;
    CHECK(once.get(loader).status().code() == StatusCode::Unsupported);
    failure = StatusCode::Ok;
    CHECK(once.get(loader).status().code() == StatusCode::Unsupported);
  }
  CHECK(loads == 2);
}

TEST_CASE("a library that lacks a function is refused, naming it") {
  const LoaderApi loader = fake_loader();
  world.files = {"libcublasLt.so.13", "libnvrtc.so.13"};
  for (const char* symbol : {"cublasLtGetVersion", "cublasLtMatmul"}) {
    world.missing_symbol = symbol;
    CHECK(load_lt_api(loader).status().message() ==
          std::string("libcublasLt.so.13 has no function ") + symbol);
  }
  world.missing_symbol = "nvrtcGetCUBIN";
  CHECK(load_nvrtc_api(loader).status().message() ==
        "libnvrtc.so.13 has no function nvrtcGetCUBIN");
}

TEST_CASE("the real loader's complaint about a missing file reaches the message (E3)") {
  LoaderApi loader = system_loader();
  loader.open = [](const char* file, int flags) -> void* {
    return (flags & RTLD_NOLOAD) != 0 ? nullptr : ::dlopen(file, flags);
  };
  loader.environment = [](const char* variable) -> char* {
    static std::string nowhere = "/nowhere/libcublasLt.so.13";
    return std::string(variable) == "GRAPH_EXECUTOR_CUBLASLT" ? nowhere.data() : nullptr;
  };
  const Status status = load_lt_api(loader).status();
  CHECK(status.code() == StatusCode::Unsupported);
  CHECK(contains(status.message(), "cuBLASLt could not be loaded: libcublasLt.so.13"));
  CHECK(contains(status.message(),
                 "/nowhere/libcublasLt.so.13: cannot open shared object file: No such file"));
}
