#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fake_device.hpp"
#include "matrix.hpp"

namespace forward_test {

using ai::ActKind;
using ai::GemmForward;
using ai::Task;

inline constexpr std::int64_t kM = 9;
inline constexpr std::int64_t kN = 12;
inline constexpr std::int64_t kK = 10;

/// The one task of a call that must be planned and lowered without an error.
inline Task lower(ai::Backend& backend, const GemmForward& call, const ai::Recall& recall = {}) {
  const ai::Result<ai::GemmPlan> plan = ai::plan_forward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  ai::Result<std::vector<Task>> tasks = backend.lower({&*plan, 1}, recall);
  REQUIRE_MESSAGE(tasks.ok(), tasks.status().to_string());
  REQUIRE(tasks->size() == 1);
  const ai::Candidate& last = tasks->front().candidates.back();
  CHECK(last.applicable());
  CHECK(last.trusted);
  return tasks->front();
}

struct Operands {
  Matrix a{kM, kK, 1};
  Matrix b{kK, kN, 3, 0, 2};
  Matrix c{kM, kN, 2, 0, 3};
  Matrix y{kM, kN, 4, 0, 4};
  Matrix z{kM, kN, 8, 0, 5};
  Matrix per_n{1, kN, 0, 0, 6};
  Matrix per_m{kM, 1, 2, 0, 7};
  Matrix scalar{1, 1, 0, 0, 8};

  [[nodiscard]] GemmForward call() const {
    return {.A = a.tensor(), .B = b.tensor(), .Y = y.tensor()};
  }
};

inline std::string reason_of(const Task& task, const char* name) {
  const ai::Candidate* candidate = fake_device::find(task, name);
  REQUIRE(candidate != nullptr);
  CHECK(candidate->steps.empty());
  return candidate->reason;
}

inline bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace forward_test
