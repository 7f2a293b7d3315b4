// Case C12: the library's fused epilogues and the road without them give the same results.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ai/kernels/backend_factory.hpp"
#include "capture/cuda_capture.hpp"
#include "device_case.hpp"
#include "support/check_case.hpp"

namespace {

using ai::ActKind;
using ai::BiasKind;
using support::Buffer;
using support::Case;
using support::ForwardData;

/// The CUDA backend, with or without the library's fused candidates, and without our own. Counts
/// the tasks that had one of the library's.
class MaybeFused final : public ai::Backend {
 public:
  explicit MaybeFused(bool fused) : fused_(fused) {}

  ai::Result<std::vector<ai::Task>> lower_run(std::span<const ai::GemmPlan> run,
                                              const ai::Recall& recall) override {
    auto tasks = backend_->lower(run, recall);
    if (!tasks.ok()) return tasks;
    for (ai::Task& task : *tasks) {
      const auto is_fused = [](const ai::Candidate& candidate) {
        return candidate.applicable() && candidate.name.find("lt_fused") == 0;
      };
      const bool has_one = std::find_if(task.candidates.begin(), task.candidates.end(), is_fused) !=
                           task.candidates.end();
      with_fused_ += has_one ? 1 : 0;
      if (!fused_) std::erase_if(task.candidates, is_fused);
      std::erase_if(task.candidates, [](const ai::Candidate& candidate) {
        return candidate.name.find("fused/") == 0;
      });
    }
    return tasks;
  }
  [[nodiscard]] int with_fused() const { return with_fused_; }

 private:
  std::unique_ptr<ai::Backend> backend_ = ai::kernels::make_cuda_backend(0);
  bool fused_;
  int with_fused_ = 0;
};

struct Run {
  ForwardData data;
  ai::Status status;
  bool used_fused = false;  ///< the graph has a fused step
};

Run replay(const Case& c, MaybeFused& backend) {
  Run run{ForwardData(c), {}};
  run.status = gpu::replay_once(run.data, [&](const ai::Program& program) {
    const ai::CaptureOptions options{.tuning = ai::Tuning::Off};
    auto executable = ai::detail::capture_with(ai::cuda::runtime_api(), backend, program, options,
                                               ai::detail::tuner_settings(options));
    if (executable.ok()) {
      for (const ai::Node& node : executable->nodes()) {
        run.used_fused = run.used_fused || node.name.find("lt_fused") != std::string::npos;
      }
    }
    return executable;
  });
  return run;
}

/// The two runs may differ by what each may differ from the oracle.
std::string apart(const oracle::Table& expected, const Buffer& a, const Buffer& b) {
  std::size_t i = 0;
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    for (std::int64_t col = 0; col < a.cols(); ++col) {
      const double gap =
          std::abs(static_cast<double>(a.at(row, col)) - static_cast<double>(b.at(row, col)));
      if (gap <= 2 * expected[i++].tolerance()) continue;
      return "Y[" + std::to_string(row) + "," + std::to_string(col) + "] is " +
             std::to_string(a.at(row, col)) + " fused, " + std::to_string(b.at(row, col)) +
             " without";
    }
  }
  return {};
}

std::vector<support::Shape> shapes() {
  std::vector<support::Shape> all = {
      {80, 1024, 160}, {16, 16384, 48}, {384, 1, 64}, {1, 1000, 1024}};
  for (const std::int64_t m : {1, 2, 31, 128, 384}) {
    for (const std::int64_t n : {1, 7, 33, 128, 129}) {
      for (const std::int64_t k : {1, 8, 65, 160}) all.push_back({m, n, k});
    }
  }
  return all;
}

TEST_CASE("C12: replays with and without fused epilogues agree over the grid of shapes") {
  MaybeFused with(true);
  MaybeFused without(false);
  int used = 0;
  int used_without = 0;
  std::uint32_t seed = 0;
  for (const support::Shape& shape : shapes()) {
    for (const BiasKind kind : {BiasKind::None, BiasKind::PerN}) {
      for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
        Case c{shape.m, shape.n, shape.k, kind, act};
        c.seed = ++seed;
        c.with_c = seed % 3 == 0;
        c.beta = 0.5F;
        c.trans_a = seed % 2 == 0;
        c.trans_b = seed % 5 < 2;
        CAPTURE(support::to_string(c));
        const Run fused = replay(c, with);
        const Run plain = replay(c, without);
        CHECK_MESSAGE(fused.status.ok(), fused.status.to_string());
        CHECK_MESSAGE(plain.status.ok(), plain.status.to_string());
        if (!fused.status.ok() || !plain.status.ok()) continue;
        const oracle::Forward expected = oracle::forward(ForwardData(c).call());
        CHECK(support::difference("Y", expected.y, fused.data.y) == "");
        CHECK(support::difference("Y", expected.y, plain.data.y) == "");
        CHECK(apart(expected.y, fused.data.y, plain.data.y) == "");
        used += fused.used_fused ? 1 : 0;
        used_without += plain.used_fused ? 1 : 0;
      }
    }
  }
  MESSAGE("a fused epilogue was open to " << with.with_fused() << " calls and used by " << used);
  CHECK(used > 100);  // else the two runs are the same
  CHECK(used_without == 0);
}

}  // namespace
