#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "ai/ai.hpp"
#include "device_case.hpp"
#include "layer.hpp"
#include "support/check_case.hpp"

/// One call on every road that leads to its kernels, and the results handed to a check.
namespace gpu {

enum class Road {
  Direct,          ///< ai::gemm on a stream
  CallersCapture,  ///< ai::gemm inside a capture of the caller's, whose graph is then launched
  Replay,          ///< ai::capture with Tuning::Off
  Tuned,           ///< ai::capture with Tuning::Measure and little time for it
  HostDirect,      ///< ai::gemm over host memory
  HostReplay,      ///< ai::capture over host memory
};

/// A std::string, since doctest prints a const char* as an address.
[[nodiscard]] inline std::string to_string(Road road) {
  switch (road) {
    case Road::Direct: return "direct";
    case Road::CallersCapture: return "direct, captured by the caller";
    case Road::Replay: return "replay, tuning off";
    case Road::Tuned: return "replay, tuned";
    case Road::HostDirect: return "host, direct";
    case Road::HostReplay: return "host, replay";
  }
  return "?";
}
[[nodiscard]] inline bool is_host(Road road) {
  return road == Road::HostDirect || road == Road::HostReplay;
}

inline constexpr Road kRoads[] = {Road::Direct, Road::CallersCapture, Road::Replay};
inline constexpr Road kRoadsAndTuned[] = {Road::Direct, Road::CallersCapture, Road::Replay,
                                          Road::Tuned};
inline constexpr Road kRoadsAndHost[] = {Road::Direct, Road::CallersCapture, Road::Replay,
                                         Road::HostDirect, Road::HostReplay};
inline constexpr Road kAllRoads[] = {Road::Direct, Road::CallersCapture, Road::Replay,
                                     Road::Tuned,  Road::HostDirect,     Road::HostReplay};

/// The stream of all roads, kept until the process ends.
[[nodiscard]] inline cudaStream_t road_stream() {
  static const cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking) == cudaSuccess);
    return made;
  }();
  return stream;
}

[[nodiscard]] inline ai::Status start(const ai::GemmForward& call, cudaStream_t stream) {
  return ai::gemm::forward(call, stream);
}
[[nodiscard]] inline ai::Status start(const ai::GemmBackward& call, cudaStream_t stream) {
  return ai::gemm::backward(call, stream);
}

/// A call on one road: made ready once, carried out as often as wanted.
template <typename Call>
class Ride {
 public:
  Ride(Road road, const Call& call) : road_(road), call_(call), status_(prepare()) {}
  ~Ride() {
    if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
  }
  Ride(const Ride&) = delete;
  Ride& operator=(const Ride&) = delete;

  /// Whether it could be made ready.
  [[nodiscard]] const ai::Status& status() const { return status_; }
  /// Puts one execution on road_stream() (a host road: does it). Precondition: status().ok().
  [[nodiscard]] ai::Status go() {
    if (graph_ != nullptr) return to_status(cudaGraphLaunch(graph_, road_stream()));
    if (executable_) return executable_->launch(is_host(road_) ? nullptr : road_stream());
    return start(call_, is_host(road_) ? nullptr : road_stream());
  }
  /// Of the replay roads only.
  [[nodiscard]] const std::optional<ai::Executable>& executable() const { return executable_; }

 private:
  [[nodiscard]] ai::Status prepare() {
    if (road_ == Road::Direct || road_ == Road::HostDirect) return {};
    if (road_ == Road::CallersCapture) return record();
    const auto planned = plan(call_);
    AI_RETURN_IF_ERROR(planned.status());
    ai::Program program;
    AI_RETURN_IF_ERROR(program.add(*planned));
    ai::CaptureOptions options{.tuning = ai::Tuning::Off, .tuning_budget_s = 0.05};
    if (road_ == Road::Tuned) options.tuning = ai::Tuning::Measure;
    ai::Result<ai::Executable> executable = ai::capture(program, options);
    AI_RETURN_IF_ERROR(executable.status());
    executable_.emplace(std::move(*executable));
    return {};
  }
  /// A call that is refused must leave the capture as it was, too.
  [[nodiscard]] ai::Status record() {
    AI_RETURN_IF_ERROR(
        to_status(cudaStreamBeginCapture(road_stream(), cudaStreamCaptureModeGlobal)));
    const ai::Status started = start(call_, road_stream());
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(road_stream(), &graph);
    if (ended != cudaSuccess) {
      (void)cudaGetLastError();
      return {ai::StatusCode::CaptureInvalidated,
              std::string("the caller's capture ended with ") + cudaGetErrorString(ended) +
                  ", the call in it with " + started.to_string()};
    }
    ai::Status status = started;
    if (status.ok()) status = to_status(cudaGraphInstantiate(&graph_, graph, 0));
    (void)cudaGraphDestroy(graph);  // the executable graph holds what it needs
    return status;
  }

  Road road_;
  Call call_;
  cudaGraphExec_t graph_ = nullptr;
  std::optional<ai::Executable> executable_;
  ai::Status status_;
};

/// Carries out `call` once, to its end. An error left in the last-error slot is a failure.
template <typename Call>
[[nodiscard]] ai::Status carry_out(Road road, const Call& call) {
  (void)cudaGetLastError();
  const auto status = [&]() -> ai::Status {
    Ride<Call> ride(road, call);
    AI_RETURN_IF_ERROR(ride.status());
    AI_RETURN_IF_ERROR(ride.go());
    return to_status(cudaStreamSynchronize(road_stream()));
  }();
  const cudaError_t left = cudaGetLastError();
  if (left == cudaSuccess) return status;
  return {ai::StatusCode::CudaError, std::string("the last-error slot holds ") +
                                         cudaGetErrorString(left) + " after " + status.to_string()};
}

inline constexpr auto kUnchanged = [](auto&) {};

/// Carries out data.call() on `road`, after adjust(call); device results are copied back whatever
/// became of it.
template <typename Data, typename Adjust = decltype(kUnchanged)>
[[nodiscard]] ai::Status run(Road road, Data& data, const Adjust& adjust = kUnchanged) {
  if (is_host(road)) {
    auto call = data.call();
    adjust(call);
    return carry_out(road, call);
  }
  DeviceCopies copies;
  AI_RETURN_IF_ERROR(copies.upload(data));
  auto call = data.call(copies.place());
  adjust(call);
  const ai::Status status = carry_out(road, call);
  const ai::Status copied = copies.download(data);
  return status.ok() ? copied : status;
}

/// Runs a copy of `fresh` on each road and hands it to check(data, road): inputs and everything
/// around the outputs are still what they were.
template <typename Data, typename Check, typename Adjust = decltype(kUnchanged)>
void on_roads(std::span<const Road> roads, const Data& fresh, Check&& check,
              const Adjust& adjust = kUnchanged) {
  CAPTURE(support::to_string(fresh.spec));
  for (const Road road : roads) {
    CAPTURE(to_string(road));
    Data before = fresh;
    Data data = fresh;
    const ai::Status status = run(road, data, adjust);
    CHECK_MESSAGE(status.ok(), status.to_string());
    if (!status.ok()) continue;
    CHECK(support::damage(before, data) == "");
    check(data, road);
  }
}

/// One case, forward and backward as far as it has them, against the oracle on each road.
inline void check_on_roads(std::span<const Road> roads, const support::Case& c) {
  for (const Road road : roads) {
    CAPTURE(to_string(road));
    const auto travel = [road](auto& data) { return run(road, data); };
    support::check_forward(c, travel);
    support::check_backward(c, travel);
  }
}

struct Tolerance {
  double absolute = 0.0;
  double relative = 0.0;
};

/// Empty where every element of `given` is wanted(row, col) within the tolerance, NaN where that is
/// NaN; else the first that is not, and how many.
template <typename Wanted>
[[nodiscard]] std::string unlike(const char* name, const support::Buffer& given, Wanted&& wanted,
                                 Tolerance tolerance = {}) {
  std::int64_t wrong = 0;
  std::string first;
  for (std::int64_t row = 0; row < given.rows(); ++row) {
    for (std::int64_t col = 0; col < given.cols(); ++col) {
      const auto value = static_cast<double>(given.at(row, col));
      const auto target = static_cast<double>(wanted(row, col));
      const double allowed = tolerance.absolute + tolerance.relative * std::abs(target);
      const bool good = std::isnan(target)   ? std::isnan(value)
                        : std::isinf(target) ? value == target
                                             : std::abs(value - target) <= allowed;
      if (good || ++wrong > 1) continue;
      char text[200];
      std::snprintf(text, sizeof text, "%s[%lld,%lld] is %.9g, expected %.9g", name,
                    static_cast<long long>(row), static_cast<long long>(col), value, target);
      first = text;
    }
  }
  if (wrong == 0) return {};
  return first + " (" + std::to_string(wrong) + " of " +
         std::to_string(given.rows() * given.cols()) + " wrong)";
}

/// For `unlike`: the same value everywhere.
[[nodiscard]] inline auto all(float value) {
  return [value](std::int64_t, std::int64_t) { return value; };
}
/// For `unlike`: what another buffer of that shape holds.
[[nodiscard]] inline auto as_in(const support::Buffer& buffer) {
  return [&buffer](std::int64_t row, std::int64_t col) { return buffer.at(row, col); };
}

}  // namespace gpu
