#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "ai/backend.hpp"
#include "ai/program.hpp"

/// Runs programs on the host backend without ai::capture: lower, give symbolic storage memory,
/// enqueue.
namespace support {

class UserWork final : public ai::Step {
 public:
  explicit UserWork(ai::UserStep step)
      : Step(step.name, ai::ranges_of(step.reads), ai::ranges_of(step.writes)),
        step_(std::move(step)) {}

  ai::Status enqueue(const ai::AddressMap& addresses, ai::Stream stream) override {
    std::vector<ai::Tensor> reads;
    std::vector<ai::Tensor> writes;
    for (const ai::Tensor& tensor : step_.reads) reads.push_back(addresses(tensor));
    for (const ai::Tensor& tensor : step_.writes) writes.push_back(addresses(tensor));
    return step_.host({stream, reads, writes});
  }

 private:
  ai::UserStep step_;
};

/// The steps of a program on the host, each task's first candidate.
[[nodiscard]] inline ai::Result<std::vector<std::shared_ptr<ai::Step>>> host_steps(
    const ai::Program& program) {
  std::vector<std::shared_ptr<ai::Step>> steps;
  const std::unique_ptr<ai::Backend> backend = ai::make_host_backend();
  for (const ai::Program::Item& item : program.items()) {
    if (const auto* user = std::get_if<ai::UserStep>(&item)) {
      steps.push_back(std::make_shared<UserWork>(*user));
      continue;
    }
    auto tasks = backend->lower({&std::get<ai::GemmPlan>(item), 1});
    if (!tasks.ok()) return tasks.status();
    for (const ai::Task& task : *tasks) {
      const auto& chosen = task.candidates.front().steps;
      steps.insert(steps.end(), chosen.begin(), chosen.end());
    }
  }
  return steps;
}

/// Memory for the symbolic ranges of steps, filled with NaN bytes.
class SymbolicStorage {
 public:
  explicit SymbolicStorage(const std::vector<std::shared_ptr<ai::Step>>& steps) {
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> intervals;
    const auto collect = [&](const std::vector<ai::MemoryRange>& ranges) {
      for (const ai::MemoryRange& range : ranges) {
        if (range.empty()) continue;
        if (!ai::symbolic::is_symbolic(reinterpret_cast<const void*>(range.begin))) continue;
        intervals.emplace_back(range.begin, range.end());
      }
    };
    for (const auto& step : steps) {
      collect(step->reads());
      collect(step->writes());
    }
    std::sort(intervals.begin(), intervals.end());
    for (std::size_t i = 0; i < intervals.size();) {
      auto [begin, end] = intervals[i];
      for (++i; i < intervals.size() && intervals[i].first <= end; ++i) {
        end = std::max(end, intervals[i].second);
      }
      const std::size_t bytes = end - begin;
      blocks_.emplace_back(bytes / sizeof(double) + 1);
      std::memset(blocks_.back().data(), 0xff, blocks_.back().size() * sizeof(double));
      addresses_.add(begin, bytes, blocks_.back().data());
    }
  }
  [[nodiscard]] const ai::AddressMap& addresses() const { return addresses_; }

 private:
  std::vector<std::vector<double>> blocks_;
  ai::AddressMap addresses_;
};

enum class Order {
  Program,  ///< as added
  Late,     ///< of the steps whose dependencies have run, always the last: as far from program
            ///< order as the hazards allow
};

[[nodiscard]] inline ai::Status run_on_host(const ai::Program& program,
                                            Order order = Order::Program) {
  const auto steps = host_steps(program);
  if (!steps.ok()) return steps.status();
  const SymbolicStorage storage(*steps);
  std::vector<const ai::Step*> plain;
  for (const auto& step : *steps) plain.push_back(step.get());
  const std::vector<std::vector<int>> waits = ai::dependencies(plain);
  std::vector<bool> done(steps->size(), false);
  for (std::size_t round = 0; round < steps->size(); ++round) {
    std::size_t next = round;
    if (order == Order::Late) {
      const auto is_ready = [&](std::size_t i) {
        return !done[i] && std::all_of(waits[i].begin(), waits[i].end(), [&](int before) {
          return done[static_cast<std::size_t>(before)];
        });
      };
      next = steps->size() - 1;
      while (!is_ready(next)) --next;
    }
    done[next] = true;
    AI_RETURN_IF_ERROR((*steps)[next]->prepare());
    AI_RETURN_IF_ERROR((*steps)[next]->enqueue(storage.addresses(), nullptr));
  }
  return {};
}

[[nodiscard]] inline ai::Status run_on_host(const ai::GemmPlan& plan,
                                            Order order = Order::Program) {
  ai::Program program;
  AI_RETURN_IF_ERROR(program.add(plan));
  return run_on_host(program, order);
}
[[nodiscard]] inline ai::Status run_on_host(const ai::GemmForward& call) {
  const ai::Result<ai::GemmPlan> plan = ai::plan_forward(call);
  return plan.ok() ? run_on_host(*plan) : plan.status();
}
[[nodiscard]] inline ai::Status run_on_host(const ai::GemmBackward& call,
                                            Order order = Order::Program) {
  const ai::Result<ai::GemmPlan> plan = ai::plan_backward(call);
  return plan.ok() ? run_on_host(*plan, order) : plan.status();
}

}  // namespace support
