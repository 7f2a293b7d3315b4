#pragma once

#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "forward_support.hpp"
#include "host/cuda/fake_nvrtc.hpp"

namespace fuse_test {

using ai::ActKind;
using ai::Candidate;
using ai::FuseOptions;
using ai::GemmForward;
using ai::GemmPlan;
using ai::PlanRun;
using ai::RecalledCandidate;
using ai::Task;
using Names = std::vector<std::string>;

/// A run of layers with a bias a column each, all but the last with ReLU.
struct Chain {
  explicit Chain(std::vector<std::int64_t> widths, std::int64_t rows = 1)
      : x(rows, widths.front()) {
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
      w.emplace_back(widths[l], widths[l + 1]);
      bias.emplace_back(1, widths[l + 1]);
      y.emplace_back(rows, widths[l + 1]);
      GemmForward call = {.A = l == 0 ? x.tensor() : y[l - 1].tensor(),
                          .B = w[l].tensor(),
                          .bias = bias[l].tensor(),
                          .Y = y[l].tensor()};
      if (l + 2 < widths.size()) call.attrs.act = ActKind::ReLU;
      calls.push_back(call);
    }
  }

  [[nodiscard]] PlanRun run() const { return run(std::vector<bool>(calls.size(), true)); }
  [[nodiscard]] PlanRun run(std::vector<bool> keeps_y) const {
    PlanRun made{{}, std::move(keeps_y)};
    for (const GemmForward& call : calls) {
      ai::Result<GemmPlan> plan = ai::plan_forward(call);
      REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
      made.plans.push_back(std::move(plan).value());
    }
    return made;
  }

  Matrix x;
  std::vector<Matrix> w, bias, y;
  std::vector<GemmForward> calls;
};

/// What the compiler of a test does, besides what FakeNvrtc does.
struct Compiling {
  int loads = 0;
  std::string refuses = {};  ///< sources with this in them; empty: none
  std::string spills = {};   ///< likewise
  ai::Status missing = {};   ///< what the loader says, if it cannot be loaded
};
inline Compiling& compiling() {
  static Compiling instance;
  return instance;
}

inline bool concerns(const std::string& text, nvrtcProgram program) {
  const char* const source = ai::cuda::test::FakeNvrtc::source_of(program);
  return !text.empty() && std::strstr(source, text.c_str()) != nullptr;
}

inline std::string log_of(nvrtcProgram program) {
  const bool spill = concerns(compiling().spills, program);
  return std::string(
             "ptxas info    : Compiling entry function 'chain_kernel' for 'sm_90a'\n"
             "ptxas info    : Function properties for chain_kernel\n") +
         (spill ? "    8 bytes stack frame, 16 bytes spill stores, 16 bytes spill loads\n"
                : "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n");
}

inline ai::Result<const ai::cuda::NvrtcApi*> load_nvrtc() noexcept {
  ++compiling().loads;
  if (!compiling().missing.ok()) return compiling().missing;
  static const ai::cuda::NvrtcApi table = [] {
    ai::cuda::NvrtcApi made = ai::cuda::test::FakeNvrtc::api();
    made.compile_program = [](nvrtcProgram program, int, const char* const*) {
      ++ai::cuda::test::FakeNvrtc::compiled;
      return concerns(compiling().refuses, program) ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
    };
    made.get_program_log_size = [](nvrtcProgram program, std::size_t* size) {
      *size = log_of(program).size() + 1;
      return NVRTC_SUCCESS;
    };
    made.get_program_log = [](nvrtcProgram program, char* log) {
      const std::string text = log_of(program);
      std::memcpy(log, text.c_str(), text.size() + 1);
      return NVRTC_SUCCESS;
    };
    return made;
  }();
  return &table;
}

/// A backend over the fakes, all in their first state, as on a device of an H200's size. Steps of
/// an earlier one are gone.
inline std::unique_ptr<ai::Backend> fresh_backend() {
  CHECK(fake_chain::state().libraries.empty());
  fake_chain::state() = {};
  compiling() = {};
  ai::cuda::test::FakeNvrtc::reset();
  fake_device::state() = {};
  fake_device::state().sm_count = 132;
  fake_lt::state() = {};
  return ai::kernels::make_backend(fake_device::api(), &fake_lt::load, 0, &load_nvrtc);
}

inline std::vector<Task> fuse(ai::Backend& backend, const std::vector<PlanRun>& runs,
                              const FuseOptions& options = {}, const ai::Recall& recall = {}) {
  ai::Result<std::vector<Task>> tasks = backend.fuse(runs, options, recall);
  REQUIRE_MESSAGE(tasks.ok(), tasks.status().to_string());
  REQUIRE(tasks->size() == runs.size());
  return std::move(tasks).value();
}

inline std::vector<Candidate> applicable(const Task& task) {
  std::vector<Candidate> some;
  for (const Candidate& candidate : task.candidates) {
    if (candidate.applicable()) some.push_back(candidate);
  }
  return some;
}

}  // namespace fuse_test
