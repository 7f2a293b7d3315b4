#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernels/lt_matmul.hpp"

namespace ai::kernels {

/// An algorithm as it outlives the process. It means what it meant only to the version of cuBLASLt
/// and the GPU that it was found with.
struct LtRecipe {
  LtAlgorithm algorithm = {};
  LtAlignments alignments = {};  ///< that it was asked for
};

/// "lt <workspace bytes> <alignments of A,B,C,D> <the algorithm's bytes> <checksum>", e.g.
/// "lt 16384 256,256,16,16 <128 hex digits> <8 hex digits>". May throw std::bad_alloc, as may all
/// below.
[[nodiscard]] std::string to_text(const LtRecipe& recipe);

/// What to_text made it of; nullopt for any other text.
[[nodiscard]] std::optional<LtRecipe> parse_lt_recipe(std::string_view text);

}  // namespace ai::kernels
