#include "capture/tuning_cache.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tuning_support.hpp"

namespace {

using namespace tuning;

TEST_CASE("what was stored is found, here and by the next process, and nothing else is") {
  const Folder folder;
  const auto path = folder / "tuning.json";
  TuningCache cache(path);
  CHECK(cache.refresh().ok());  // no file is no wrong
  CHECK_FALSE(cache.find(machine(), "a"));
  REQUIRE(cache.store(machine(), {{"a", choice(1)}, {"b", choice(2)}}).ok());
  REQUIRE(cache.store(machine(), one("b", 3)).ok());
  CHECK(cache.find(machine(), "a") == choice(1));

  TuningCache next(path);
  CHECK_FALSE(next.find(machine(), "a"));  // not read yet
  REQUIRE(next.refresh().ok());
  CHECK(next.find(machine(), "a") == choice(1));
  CHECK(next.find(machine(), "b") == choice(3));
  CHECK_FALSE(next.find(machine(), "c"));
  CHECK_FALSE(next.find(machine(), ""));
  CHECK_FALSE(exists(path + ".new"));
}

TEST_CASE("times come back as the same numbers") {
  const Folder folder;
  TuningCache cache(folder / "t");
  auto exact = choice();
  exact.time_us = 0.1 + 0.2;
  exact.runner_up_us = 1.0 / 3;
  exact.budget_s = 1e-300;
  REQUIRE(cache.store(machine(), {{"a", exact}}).ok());
  TuningCache next(folder / "t");
  REQUIRE(next.refresh().ok());
  CHECK(next.find(machine(), "a") == exact);
}

TEST_CASE("a machine that differs in one thing knows nothing of another's choices") {
  const Folder folder;
  TuningCache cache(folder / "t");
  REQUIRE(cache.store(machine(), one("a")).ok());
  const std::vector<std::function<void(TuningMachine&)>> changes{
      [](auto& m) { m.gpu = "NVIDIA H100"; },
      [](auto& m) { m.sm_count = 131; },
      [](auto& m) { m.driver = "580.159.05, CUDA 13.0"; },
      [](auto& m) { m.cuda = "13.1"; },
      [](auto& m) { m.libraries = "cuBLASLt 13.2.0"; },
      [](auto& m) { m.library = "0.1.1"; },
  };
  TuningCache next(folder / "t");
  REQUIRE(next.refresh().ok());
  REQUIRE(next.find(machine(), "a"));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    auto other = machine();
    changes[i](other);
    CHECK_FALSE(next.find(other, "a"));
    REQUIRE(next.store(other, one("a", 7)).ok());
    CHECK(next.find(other, "a") == choice(7));
  }
  CHECK(next.find(machine(), "a") == choice());
}

TEST_CASE("what another process has stored is kept, and found after a refresh") {
  const Folder folder;
  TuningCache first(folder / "t");
  TuningCache second(folder / "t");
  REQUIRE(first.store(machine(), one("a", 1)).ok());
  REQUIRE(second.store(machine(), one("b", 2)).ok());
  CHECK(second.find(machine(), "a") == choice(1));
  CHECK_FALSE(first.find(machine(), "b"));
  REQUIRE(first.refresh().ok());
  CHECK(first.find(machine(), "a") == choice(1));
  CHECK(first.find(machine(), "b") == choice(2));
}

TEST_CASE("a file that was removed is forgotten, and storing begins a new one") {
  const Folder folder;
  TuningCache cache(folder / "t");
  REQUIRE(cache.store(machine(), one("a")).ok());
  REQUIRE(fs::remove(folder / "t"));
  CHECK(cache.refresh().ok());
  CHECK_FALSE(cache.find(machine(), "a"));
  REQUIRE(cache.store(machine(), one("b")).ok());
  CHECK_FALSE(contains(read_text(folder / "t"), "\"a\""));
}

TEST_CASE("nothing to store makes no file") {
  const Folder folder;
  TuningCache cache(folder / "t");
  CHECK(cache.store(machine(), {}).ok());
  CHECK_FALSE(exists(folder / "t"));
  CHECK_FALSE(exists(folder / "t.lock"));
}

TEST_CASE("a process has one cache for a file, however it is called") {
  const Folder folder;
  CHECK(TuningCache::at("") == nullptr);
  const auto cache = TuningCache::at(folder / "t");
  REQUIRE(cache != nullptr);
  CHECK(fs::path(cache->path()).is_absolute());
  CHECK(TuningCache::at(folder / "t") == cache);
  CHECK(TuningCache::at(folder / "./t") == cache);
  CHECK(TuningCache::at(folder / "missing/../t") == cache);
  CHECK(TuningCache::at(folder / "u") != cache);
  const auto here = fs::relative(folder / "t").string();
  REQUIRE_FALSE(here.starts_with('/'));
  CHECK(TuningCache::at(here) == cache);
  fs::create_directory_symlink(folder / "", folder / "link");
  CHECK(TuningCache::at(folder / "link/t") == cache);
}

TEST_CASE("a relative path is meant from where the process was when it was named") {
  const Folder folder;
  const auto before = fs::current_path();
  fs::current_path(folder / "");
  const auto cache = TuningCache::at("t");
  fs::current_path(before);
  REQUIRE(cache->store(machine(), one("a")).ok());
  CHECK(exists(folder / "t"));
}

TEST_CASE("threads store and look at once, and nothing is lost") {
  const Folder folder;
  const auto path = folder / "t";
  constexpr int kThreads = 8;
  constexpr int kStores = 25;
  TuningCache apart(path);  // as if of another process
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto shared = TuningCache::at(path);
      auto& cache = thread % 4 == 3 ? apart : *shared;
      for (int i = 0; i < kStores; ++i) {
        const auto problem = std::to_string(thread) + "/" + std::to_string(i);
        if (!may_be_busy(cache.store(machine(), one(problem, i)))) ++failures;
        if (!cache.refresh().ok()) ++failures;
        if (cache.find(machine(), problem) != choice(i)) ++failures;
      }
      if (!flush(cache)) ++failures;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
  TuningCache next(path);
  REQUIRE(next.refresh().ok());
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = 0; i < kStores; ++i) {
      CHECK(next.find(machine(), std::to_string(thread) + "/" + std::to_string(i)) == choice(i));
    }
  }
}

}  // namespace
