#include <doctest/doctest.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "capture/tuning_cache.hpp"
#include "capture/tuning_file.hpp"
#include "tuning_support.hpp"

namespace {

using ai::StatusCode;
using ai::detail::FileLock;
using namespace tuning;
using Clock = std::chrono::steady_clock;

std::string name(int process, int store, int entry) {
  return std::to_string(process) + "/" + std::to_string(store) + "/" + std::to_string(entry);
}

TEST_CASE("two processes that store at once lose no entry") {
  constexpr int kRounds = 3;
  constexpr int kStores = 60;
  constexpr int kEntries = 5;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const Folder folder;
    const auto path = folder / "new/t";  // the folder, too, is made by both
    pid_t children[2];
    for (int process = 0; process < 2; ++process) {
      children[process] = start([&] {
        TuningCache cache(path);
        for (int i = 0; i < kStores; ++i) {
          TuningCache::Choices choices;
          for (int entry = 0; entry < kEntries; ++entry) {
            choices.emplace(name(process, i, entry), choice(entry));
          }
          if (!may_be_busy(cache.store(machine(), choices))) return 1;
        }
        return flush(cache) ? 0 : 2;
      });
    }
    CHECK(exit_code(children[0]) == 0);
    CHECK(exit_code(children[1]) == 0);
    TuningCache cache(path);
    CHECK(cache.refresh().ok());
    int found = 0;
    for (int process = 0; process < 2; ++process) {
      for (int i = 0; i < kStores; ++i) {
        for (int entry = 0; entry < kEntries; ++entry) {
          found += cache.find(machine(), name(process, i, entry)) == choice(entry);
        }
      }
    }
    CHECK(found == 2 * kStores * kEntries);
  }
}

TEST_CASE("a process that is killed while it stores leaves a file that can be read") {
  const Folder folder;
  const auto path = folder / "t";
  TuningCache::Choices many;
  for (int i = 0; i < 1000; ++i) many.emplace("problem " + std::to_string(i), choice(i));
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    const pid_t child = start([&] {
      TuningCache cache(path);
      for (int i = 0;; ++i) {
        many["last"] = choice(i);
        if (!cache.store(machine(), many).ok()) return 1;
      }
    });
    for (int i = 0; i < 20000 && !exists(path); ++i) ::usleep(1000);
    ::usleep(static_cast<useconds_t>(round * 1700));
    REQUIRE(::kill(child, SIGKILL) == 0);
    CHECK(exit_code(child) == -1);
    TuningCache cache(path);
    CHECK(cache.refresh().ok());
    CHECK(cache.find(machine(), "problem 999") == choice(999));
    CHECK(cache.store(machine(), one("mine")).ok());  // its lock has gone with it
    CHECK_FALSE(exists(path + ".new"));
    if (round % 3 == 0) fs::remove(path);
  }
}

TEST_CASE("a lock that another process holds is reported after two seconds, and nothing is lost") {
  const Folder folder;
  const auto path = folder / "t";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = start([&] {
    const auto lock = FileLock::take(path, std::chrono::milliseconds(0));
    if (!lock || ::write(ready[1], "x", 1) != 1) return 1;
    ::sleep(600);
    return 2;
  });
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);

  TuningCache cache(path);
  const auto before = Clock::now();
  const auto said = cache.store(machine(), one("a"));
  const std::chrono::duration<double> took = Clock::now() - before;
  CHECK(said.code() == StatusCode::Unsupported);
  CHECK_MESSAGE(contains(said.message(), "another process has held the lock " + path + ".lock"),
                said.message());
  CHECK(took.count() >= 2);
  CHECK(took.count() < 20);  // not for ever; a busy machine may take its time
  CHECK_FALSE(exists(path));
  CHECK(cache.refresh().ok());
  CHECK(cache.find(machine(), "a") == choice());

  REQUIRE(::kill(child, SIGKILL) == 0);
  CHECK(exit_code(child) == -1);
  CHECK(cache.store(machine(), one("b")).ok());
  TuningCache next(path);
  REQUIRE(next.refresh().ok());
  CHECK(next.find(machine(), "a") == choice());  // with what could not be written then
  CHECK(next.find(machine(), "b") == choice());
}

TEST_CASE("a lookup does not wait for a store that waits for another process") {
  const Folder folder;
  const auto path = folder / "t";
  TuningCache cache(path);
  REQUIRE(cache.store(machine(), one("a")).ok());
  auto lock = std::optional(FileLock::take(path, std::chrono::milliseconds(0)));
  REQUIRE(lock->ok());
  std::thread storing([&] { CHECK(cache.store(machine(), one("b")).ok()); });
  while (!cache.find(machine(), "b")) std::this_thread::yield();  // before it has been written
  CHECK(cache.refresh().ok());
  CHECK_FALSE(contains(read_text(path), "\"b\""));
  lock.reset();
  storing.join();
  CHECK(contains(read_text(path), "\"b\""));
}

TEST_CASE("threads that store while another process writes wait for two seconds, not one by one") {
  const Folder folder;
  const auto path = folder / "t";
  TuningCache cache(path);
  auto lock = std::optional(FileLock::take(path, std::chrono::milliseconds(0)));
  REQUIRE(lock->ok());
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (const char* const problem : {"a", "b", "c"}) {
    threads.emplace_back([&, problem] {
      const ai::Status stored = cache.store(machine(), one(problem));
      CHECK(stored.code() == ai::StatusCode::Unsupported);
      CHECK_MESSAGE(contains(stored.message(), "was not written"), stored.message());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() >= 2);
  CHECK(took.count() < 5.5);  // one by one: six
  lock.reset();
  CHECK(cache.store(machine(), {}).ok());  // what could not be written then
  TuningCache next(path);
  REQUIRE(next.refresh().ok());
  for (const char* const problem : {"a", "b", "c"}) CHECK(next.find(machine(), problem));
}

TEST_CASE("a lock that is let go is free, though a forked process has its descriptor") {
  const Folder folder;
  auto lock = std::optional(FileLock::take(folder / "t", std::chrono::milliseconds(0)));
  REQUIRE(lock->ok());
  const pid_t child = start([] {
    ::sleep(600);
    return 0;
  });
  CHECK_FALSE(FileLock::take(folder / "t", std::chrono::milliseconds(10)).ok());
  lock.reset();
  CHECK(FileLock::take(folder / "t", std::chrono::milliseconds(0)).ok());
  REQUIRE(::kill(child, SIGKILL) == 0);
  CHECK(exit_code(child) == -1);
}

}  // namespace
