#include "latency.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace digits {

ai::Result<Percentiles> measure(const std::function<ai::Status()>& action, int count) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < count / 10; ++i) AI_RETURN_IF_ERROR(action());
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    AI_RETURN_IF_ERROR(action());
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  const auto at = [&](double q) {
    return times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))];
  };
  return Percentiles{at(0.5), at(0.99), at(0.999)};
}

}  // namespace digits
