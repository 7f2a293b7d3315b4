#pragma once

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "ai/backend.hpp"
#include "ai/gemm.hpp"

namespace backward_test {

/// The tasks of a call that must be valid and served.
inline std::vector<ai::Task> lower(ai::Backend& backend, const ai::GemmBackward& call,
                                   const ai::Recall& recall = {}) {
  const ai::Result<ai::GemmPlan> plan = ai::plan_backward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  ai::Result<std::vector<ai::Task>> tasks = backend.lower({&*plan, 1}, recall);
  REQUIRE_MESSAGE(tasks.ok(), tasks.status().to_string());
  return *std::move(tasks);
}

}  // namespace backward_test
