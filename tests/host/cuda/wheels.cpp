// NVIDIA's wheels in Python environments.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/dynamic_library.hpp"
#include "cuda/nvrtc_api.hpp"
#include "fake_loader.hpp"

using ai::Status;
using ai::StatusCode;
using namespace ai::cuda;
using namespace ai::cuda::test;

TEST_CASE("the wheels of a Python environment are searched (E3)") {
  const TemporaryFolder folder;
  const fs::path site = folder.path / "lib" / "python3.11" / "site-packages";
  fs::create_directories(site);
  const LoaderApi loader = fake_loader();
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"}) {
    CAPTURE(variable);
    world.variables = {{variable, folder.path.string()}};
    const std::vector<std::string> places = library_places(kName, loader);
    for (const char* wheel : {"nvidia/cu13/lib", "nvidia/thing/lib"}) {
      const std::string place = (site / wheel / "libthing.so.13").string();
      CHECK(std::count(places.begin(), places.end(), place) == 1);
    }
  }
  world.variables = {{"PYTHONPATH", ":/one::/two"}};
  const std::vector<std::string> places = library_places(kName, loader);
  CHECK(std::count(places.begin(), places.end(), "/one/nvidia/cu13/lib/libthing.so.13") == 1);
  CHECK(std::count(places.begin(), places.end(), "/two/nvidia/thing/lib/libthing.so.13") == 1);
}

TEST_CASE("the environments that an interpreter names are searched before all else (E3)") {
  const NamedSites named({"/first/site-packages", "/second/site-packages"});
  const LoaderApi loader = fake_loader();
  world.variables["CUDA_HOME"] = "/home_cuda";
  world.variables["PYTHONPATH"] = "/elsewhere";
  const std::vector<std::string> places = library_places(kName, loader);
  const std::vector<std::string> first{"/first/site-packages/nvidia/cu13/lib/libthing.so.13",
                                       "/first/site-packages/nvidia/thing/lib/libthing.so.13",
                                       "/second/site-packages/nvidia/cu13/lib/libthing.so.13",
                                       "/second/site-packages/nvidia/thing/lib/libthing.so.13",
                                       "libthing.so.13",
                                       "/home_cuda/lib64/libthing.so.13"};
  REQUIRE(places.size() > first.size());
  CHECK(std::equal(first.begin(), first.end(), places.begin()));
  CHECK(std::count(places.begin(), places.end(), "/elsewhere/nvidia/thing/lib/libthing.so.13") ==
        1);

  world.files = {first[1], "libthing.so.13"};
  CHECK(open_library(kName, loader)->place == first[1]);
  SUBCASE("but after what the process has (torch's copy, say)") {
    world.loaded = {"libthing.so.13"};
    CHECK(open_library(kName, loader)->place == "libthing.so.13");
  }
  SUBCASE("and after the file that the variable names") {
    world.files.insert("/mine/thing.so");
    world.variables["THING_LIBRARY"] = "/mine/thing.so";
    CHECK(open_library(kName, loader)->place == "/mine/thing.so");
  }
  SUBCASE("until others are named") {
    set_site_packages({"/third"});
    CHECK(library_places(kName, loader)[0] == "/third/nvidia/cu13/lib/libthing.so.13");
    CHECK(library_places(kName, loader)[2] == "libthing.so.13");
    set_site_packages({});
    CHECK(library_places(kName, loader)[0] == "libthing.so.13");
  }
}

TEST_CASE("naming environments while others look for libraries is safe") {
  const NamedSites named({"/even"});
  const LoaderApi loader = fake_loader();
  std::atomic<bool> over{false};
  std::thread naming([&over] {
    for (int i = 0; i < 2000; ++i) {
      set_site_packages(std::vector<std::string>(static_cast<std::size_t>(i % 3), "/odd"));
    }
    over = true;
  });
  bool good = true;
  while (!over) {
    const std::string first = library_places(kName, loader).front();
    good = good && (first == "libthing.so.13" || first.starts_with("/even/nvidia/") ||
                    first.starts_with("/odd/nvidia/"));
  }
  naming.join();
  CHECK(good);
}

TEST_CASE("another version in the wheels of an environment that an interpreter names (E3)") {
  const TemporaryFolder folder;
  const fs::path wheels = folder.path / "nvidia";
  const fs::path older = wheels / "thing" / "lib" / "libthing.so.12";
  const fs::path newer = wheels / "cu14" / "lib" / "libthing.so.14";
  for (const fs::path& file : {older, newer}) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "x";
  }
  std::ofstream(wheels / "not a folder") << "x";
  const NamedSites named({folder.path.string()});
  const LoaderApi loader = fake_loader();
  const Status status = open_library(kName, loader).status();
  CHECK(status.code() == StatusCode::Unsupported);
  CHECK(contains(status.message(), "(major version 13) is wanted"));
  CHECK(contains(status.message(), folder.path.string() + "/nvidia/cu13/lib/libthing.so.13: "));
  for (const fs::path& file : {older, newer}) {
    const std::string line = "\n  found another version: " + file.string();
    CHECK(contains(status.message(), line));
    CHECK(status.message().find(line) == status.message().rfind(line));
  }
}

TEST_CASE("NVRTC's builtins are loaded from its folder, where the loader did not choose it (E3)") {
  const NamedSites named({"/site"});
  const LoaderApi loader = fake_loader();
  const std::string folder = "/site/nvidia/cu13/lib/";
  const std::string builtins = folder + "libnvrtc-builtins.so.13.1";
  world.files = {folder + "libnvrtc.so.13", builtins};
  CHECK(load_nvrtc_api(loader).ok());
  CHECK(world.opened.back() == builtins);
  SUBCASE("without them it loads all the same, and will say so itself when it compiles") {
    world.files.erase(builtins);
    CHECK(load_nvrtc_api(loader).ok());
  }
  SUBCASE("where the process has NVRTC already its builtins are not ours to choose") {
    world.loaded = {"libnvrtc.so.13"};
    world.opened.clear();
    CHECK(load_nvrtc_api(loader).ok());
    CHECK(world.opened.empty());
  }
}
