#pragma once

#include "forward_support.hpp"

namespace forward_test {

/// What a tuning file keeps of a candidate.
inline ai::RecalledCandidate stored(const ai::Candidate& candidate) {
  return {candidate.name, candidate.recipe};
}

/// The task, where `known` is all that is known of it.
inline Task recall(ai::Backend& backend, const GemmForward& call,
                   const ai::RecalledCandidate& known) {
  return lower(backend, call, [&](std::size_t task) {
    CHECK(task == 0);
    return &known;
  });
}

}  // namespace forward_test
