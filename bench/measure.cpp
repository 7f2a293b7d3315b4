#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "timing.hpp"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;
using Launch = std::function<void(cudaStream_t)>;

constexpr std::size_t kLeastSamples = 3;
constexpr std::size_t kMostSamples = 20000;
constexpr int kUntimed = 10;
constexpr double kUntimedUs = 1e5;  // of long steps fewer than kUntimed launches go ahead
constexpr double kSampleUs = 1000;  // what a sample of many launches is to take
constexpr double kAheadUs = 100;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// Takes samples until the time is over.
std::vector<double> samples_within(double seconds, const std::function<double()>& sample) {
  std::vector<double> samples;
  const auto begin = Clock::now();
  while (samples.size() < kLeastSamples ||
         (us_since(begin) < seconds * 1e6 && samples.size() < kMostSamples)) {
    samples.push_back(sample());
  }
  return samples;
}

/// Launches in batches that take about kSampleUs, or one launch where that takes longer.
class Batches {
 public:
  Batches(Launch launch, cudaStream_t stream) : launch_(std::move(launch)), stream_(stream) {
    time(1);  // may have to make what it launches
    const double roughly = time(1);
    const double each = time(std::clamp(static_cast<int>(kUntimedUs / roughly), 1, kUntimed));
    count_ = static_cast<int>(std::clamp(kSampleUs / each, 1.0, 200.0));
    ahead_ = static_cast<int>(std::clamp(kAheadUs / each, 1.0, static_cast<double>(kUntimed)));
  }
  double sample() {
    // The device has work when the first event is reached, so that it does not wait for the host.
    for (int i = 0; i < ahead_; ++i) launch_(stream_);
    return back_to_back(stream_, launch_, count_);
  }

 private:
  /// Microseconds a launch, as the host sees them.
  double time(int count) {
    const auto begin = Clock::now();
    for (int i = 0; i < count; ++i) launch_(stream_);
    check(cudaStreamSynchronize(stream_), "untimed launches");
    return us_since(begin) / count;
  }

  Launch launch_;
  cudaStream_t stream_;
  int count_ = 1;
  int ahead_ = 1;
};

}  // namespace

What parse_what(std::string_view name) {
  if (name == "device") return What::Device;
  if (name == "slope") return What::Slope;
  if (name == "host") return What::Host;
  if (name == "launch") return What::Launch;
  throw Failed("what is '" + std::string(name) + "', expected device, slope, host or launch");
}

std::vector<double> measure(Contestant& contestant, What what, double seconds,
                            cudaStream_t stream) {
  Batches once([&](cudaStream_t on) { contestant.launch(on); }, stream);
  std::vector<double> samples;
  switch (what) {
    case What::Device: samples = samples_within(seconds, [&] { return once.sample(); }); break;
    case What::Slope: {
      Batches many([&](cudaStream_t on) { contestant.launch_many(on); }, stream);
      samples = samples_within(seconds, [&] {
        const double one = once.sample();
        return (many.sample() - one) / (kManyCopies - 1);
      });
      break;
    }
    case What::Host:
      samples = samples_within(seconds, [&] {
        const auto begin = Clock::now();
        contestant.launch(stream);
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        return us_since(begin);
      });
      break;
    case What::Launch:
      samples = samples_within(seconds, [&] {
        constexpr int kQueue = 16;
        const auto begin = Clock::now();
        for (int i = 0; i < kQueue; ++i) contestant.launch(stream);
        const double time = us_since(begin) / kQueue;
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        return time;
      });
      break;
  }
  check(cudaStreamSynchronize(stream), "end of measuring");
  return samples;
}

}  // namespace bench
