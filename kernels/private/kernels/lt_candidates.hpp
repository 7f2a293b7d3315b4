#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ai/backend.hpp"
#include "kernels/lt_matmul.hpp"
#include "kernels/machine.hpp"

namespace ai::kernels {

/// The most scratch that an algorithm may take; split sums over k use it.
inline constexpr std::size_t kLtWorkspaceBytes = std::size_t{32} << 20;
/// The limits that the heuristic is asked with: under a lower one it names other algorithms.
inline constexpr std::array<std::size_t, 3> kLtWorkspaceLimits = {kLtWorkspaceBytes,
                                                                  std::size_t{1} << 20, 0};

/// What cuBLASLt offers for one call.
struct LtOffer {
  std::shared_ptr<LtMatmul> matmul;
  /// Best first, none twice: those for the most scratch, then those that only show up with less.
  std::vector<LtAlgorithm> algorithms;
  /// The first answer for no scratch at all; the very first where there is none.
  LtAlgorithm fallback = {};
};
/// No algorithms: cuBLASLt has none for the call.
[[nodiscard]] Result<LtOffer> ask_lt(Machine& machine, const LtCall& call);

/// One call of cuBLASLt with steps behind it: what candidates that differ only in the algorithm
/// have in common.
struct LtRoad {
  std::string family;  ///< candidates are named `family`/0, /1, ... and `family`/fallback
  std::string step_name;
  LtCall call = {};
  std::vector<std::shared_ptr<Step>> after = {};
};

/// The road with one of the algorithms that `matmul` (made for its call) was offered.
[[nodiscard]] Candidate lt_candidate(const LtRoad& road, const std::string& variant,
                                     const std::shared_ptr<LtMatmul>& matmul,
                                     const LtAlgorithm& algorithm);

/// The road with the algorithm of a recipe, which is asked of nobody but checked; none where
/// `recalled` is no candidate of the road, cuBLASLt refuses it, it takes more scratch than it did
/// (or than it may), or an operand is less aligned than when it was found. Precondition: the
/// product is within the span.
[[nodiscard]] std::optional<Candidate> recall_lt(Machine& machine, const LtRoad& road,
                                                 const RecalledCandidate& recalled);

/// The road with each of the algorithms that cuBLASLt has for its call, or one candidate that says
/// that there are none. Precondition: the product is within the span.
[[nodiscard]] Status append_offered(Machine& machine, const LtRoad& road, bool trusted,
                                    std::vector<Candidate>& candidates);

/// All candidates of a road over a plain product. Unsupported where cuBLASLt cannot do the product.
/// A product beyond kMaxSpan is done in tiles, as `family`/tiles alone.
[[nodiscard]] Status append_products(Machine& machine, const LtRoad& road,
                                     std::vector<Candidate>& candidates);

}  // namespace ai::kernels
