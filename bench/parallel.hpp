#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace bench {

/// Calls work(begin, end) for consecutive parts of [0, count), on as many threads as there are
/// cores. `work` must not throw.
template <typename Work>
void in_parallel(std::int64_t count, const Work& work) {
  constexpr std::int64_t kLeast = 64;  // what is worth a thread
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const std::int64_t parts = std::clamp<std::int64_t>(count / kLeast, 1, cores);
  std::vector<std::thread> threads;
  for (std::int64_t part = 1; part < parts; ++part) {
    threads.emplace_back([&work, begin = count * part / parts, end = count * (part + 1) / parts] {
      work(begin, end);
    });
  }
  work(std::int64_t{0}, count / parts);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace bench
