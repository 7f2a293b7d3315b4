#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ai/backend.hpp"
#include "cuda/api.hpp"
#include "kernels/product.hpp"

namespace ai::kernels {

/// Appends the ways of the family `fused` to a plain product: "fused/outer" where K is at most 8,
/// "fused/0" and so on where M or N is; or the reason why there are none. Steps are named
/// "fused `operand`". Precondition: the product has elements. All may throw std::bad_alloc.
void append_fused_products(const cuda::Api& api, const Product& product, const std::string& operand,
                           std::vector<Candidate>& candidates);

/// The one of them that `recalled` names; none where it is none of them.
[[nodiscard]] std::optional<Candidate> recall_fused_product(const cuda::Api& api,
                                                            const Product& product,
                                                            const std::string& operand,
                                                            const RecalledCandidate& recalled);

}  // namespace ai::kernels
