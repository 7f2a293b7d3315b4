#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "ai/backend.hpp"
#include "ai/direct.hpp"
#include "capture/direct_plan.hpp"
#include "capture/plan_cache.hpp"
#include "capture/stream_scratch.hpp"
#include "cuda/api.hpp"
#include "cuda/driver_launch.hpp"
#include "cuda/driver_streams.hpp"

namespace ai::detail {

struct RecentCall;

/// The direct path on the CUDA target, over any runtime and backend. Thread-safe.
class DirectPath {
 public:
  /// A graph costs 60 to 100 us once, and saves 2 to 20 us a call: the same call, so many times in
  /// one thread, is taken to come many times more.
  static constexpr int kGraphFrom = 8;

  DirectPath(const cuda::Api& api, DirectPlan::BackendMaker make_backend) noexcept;
  /// Nobody is calling, and no other thread that has is alive.
  ~DirectPath();
  DirectPath(const DirectPath&) = delete;
  DirectPath& operator=(const DirectPath&) = delete;

  /// ai::gemm::forward and backward for tensors on Device::CUDA. May throw std::bad_alloc.
  [[nodiscard]] Status run(const DirectCall& call, Stream stream);

  [[nodiscard]] gemm::PlanCacheInfo info() const;
  void set_limit(std::size_t plans);
  void set_graph_limit(std::size_t graphs);
  void clear();

 private:
  using Plans = PlanCache<DirectKey, DirectPlan, DirectKeyHash>;

  [[nodiscard]] Status recall(const DirectCall& call, const DirectKey& key, RecentCall& recent);
  [[nodiscard]] Status run_known(RecentCall& known, const DirectCall& call, Stream stream);
  [[nodiscard]] Result<std::shared_ptr<DirectPlan>> make(const DirectCall& call);
  [[nodiscard]] Status check_operands(const DirectPlan& plan, const DirectCall& call) const;
  void make_replay(RecentCall& known, const DirectCall& call) const;
  [[nodiscard]] Status run_eager(RecentCall& known, const DirectCall& call, Stream stream);
  [[nodiscard]] Status run_captured(DirectPlan& plan, const DirectCall& call, Stream stream);

  const cuda::Api& api_;
  const cuda::DriverStreams driver_;
  const cuda::DriverLaunch launch_;
  const DirectPlan::BackendMaker make_backend_;
  Plans plans_{1024};
  std::atomic<std::uint64_t> planned_{0};
  // Of what threads remember of calls and pointers; clear() and set_limit() begin another.
  std::atomic<std::uint64_t> epoch_;
  StreamScratch scratch_;
};

}  // namespace ai::detail
