#include "capture/plan_cache.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace {

using Cache = ai::detail::PlanCache<int, int, std::hash<int>>;

TEST_CASE("a plan that is kept is found, and clearing forgets all of them") {
  Cache cache(4);
  CHECK(cache.find(1) == nullptr);
  cache.insert(1, std::make_shared<int>(10));
  REQUIRE(cache.find(1) != nullptr);
  CHECK(*cache.find(1) == 10);
  cache.insert(1, std::make_shared<int>(11));
  CHECK(*cache.find(1) == 11);
  CHECK(cache.size() == 1);
  const std::shared_ptr<int> held = cache.find(1);
  cache.clear();
  CHECK(cache.size() == 0);
  CHECK(*held == 11);
}

TEST_CASE("a use saves a plan from being the one that goes") {
  Cache cache(3);
  for (int i = 0; i < 3; ++i) cache.insert(i, std::make_shared<int>(i));
  (void)cache.find(0);
  cache.insert(3, std::make_shared<int>(3));
  CHECK(cache.find(0) != nullptr);
  CHECK(cache.find(1) == nullptr);
  CHECK(cache.size() == 3);
  cache.set_limit(1);
  CHECK(cache.size() == 1);
  CHECK(cache.limit() == 1);
}

TEST_CASE("threads may find, insert and clear at once") {
  Cache cache(16);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        const int key = (i * 7 + t) % 40;
        if (const std::shared_ptr<int> found = cache.find(key)) {
          if (*found != key) ++wrong;
        } else {
          cache.insert(key, std::make_shared<int>(key));
        }
        if (t == 0 && i % 1000 == 0) cache.clear();
        if (t == 1 && i % 1500 == 0) cache.set_limit(static_cast<std::size_t>(8 + i % 9));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(cache.size() <= 16);
}

}  // namespace
