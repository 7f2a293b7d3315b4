// The machine that measured choices hold for, and several captures at one file.
#include "capture/tuning_machine.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "capture/recollection.hpp"
#include "recalled_program.hpp"

namespace ai::test {
namespace {

/// Runtime functions that keep no state, for any number of threads.
const cuda::Api& stateless_api() {
  static const cuda::Api table = [] {
    cuda::Api t{};
    t.runtime_get_version = [](int* out) { return *out = 13000, cudaSuccess; };
    t.driver_get_version = [](int* out) { return *out = 13000, cudaSuccess; };
    t.get_device_count = [](int* out) { return *out = 1, cudaSuccess; };
    t.device_get_attribute = [](int* out, cudaDeviceAttr, int) { return *out = 132, cudaSuccess; };
    t.get_last_error = [] { return cudaSuccess; };
    return t;
  }();
  return table;
}

TEST_CASE("a machine is told by its GPU, driver, CUDA, libraries and this library's version") {
  FakeCuda fake;
  RecallingBackend backend(fake, {});
  const Result<detail::TuningMachine> machine = detail::tuning_machine(stateless_api(), 0, backend);
  REQUIRE(machine.ok());
  CHECK(machine->libraries == "fakeBLAS 1.2");
  CHECK_MESSAGE(machine->driver.ends_with("CUDA 13.0"), machine->driver);
  CHECK(machine->cuda == "13.0");
  CHECK(machine->sm_count == 132);
  CHECK(machine->library.find('.') != std::string::npos);
}

TEST_CASE("the release of a kernel driver is the first number with points in its line") {
  using detail::driver_release;
  CHECK(driver_release(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  "
            "Release Build  (builder@host)  Tue Oct 7\nGCC version:  gcc version 12.2.0") ==
        "580.159.04");
  CHECK(driver_release("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54  Fri") == "535.54");
  CHECK(driver_release("").empty());
  CHECK(driver_release("no release. in here\nGCC version 12.2.0").empty());
}

TEST_CASE("captures on several threads that store at once lose nothing") {
  FakeCuda fake;
  RecallingBackend backend(fake, {});  // asked for its libraries, no more
  const tuning::Folder folder;
  const std::string path = folder / "tuning.json";
  constexpr int kThreads = 4;
  constexpr int kCaptures = 8;
  const auto problem = [](int thread, int capture) {
    return "problem " + std::to_string(thread) + "/" + std::to_string(capture);
  };
  std::vector<std::vector<std::string>> warnings(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCaptures; ++i) {
        detail::Recollection file(stateless_api(), 0, backend, path, [&](const Status& s) {
          warnings[static_cast<std::size_t>(t)].push_back(s.to_string());
        });
        (void)file.find(problem(t, i));
        detail::StoredChoice choice;
        choice.candidate = {"lt/3", "make it"};
        choice.time_us = t + i;
        file.store({{problem(t, i), choice}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : warnings) CHECK(mine.empty());
  detail::Recollection file(stateless_api(), 0, backend, path, {});
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kCaptures; ++i) {
      const detail::StoredChoice* const found = file.find(problem(t, i));
      REQUIRE(found != nullptr);
      CHECK(found->time_us == t + i);
    }
  }
}

TEST_CASE("where nothing is known of the machine the file is not used, and why is told once") {
  FakeCuda fake;
  RecallingBackend backend(fake, {});
  const tuning::Folder folder;
  std::vector<std::string> warnings;
  detail::Recollection file(FakeCuda::api(), 0, backend, folder / "tuning.json",
                            [&](const Status& s) { warnings.push_back(s.to_string()); });
  fake.fail("device_get_attribute", 1, cudaErrorUnknown);
  CHECK(file.find("a") == nullptr);
  CHECK(file.find("b") == nullptr);
  file.store({{"a", {.candidate = {"lt/3", "make it"}, .time_us = 1}}});
  REQUIRE(warnings.size() == 1);
  CHECK_MESSAGE(has(warnings[0], "tuning.json is not used"), warnings[0]);
  CHECK(!tuning::exists(folder / "tuning.json"));
}

}  // namespace
}  // namespace ai::test
