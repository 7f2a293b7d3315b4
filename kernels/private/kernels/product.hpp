#pragma once

#include <cstdint>
#include <vector>

#include "kernels/views.hpp"

namespace ai::kernels {

/// D = alpha * op(L) op(R) + beta * C over row-major views as they are stored: D[m,n], L [m,k] or,
/// with trans_l, [k,m]; R [k,n] or, with trans_r, [n,k]. C is read where beta != 0 only; it may be
/// D.
struct Product {
  MatrixView l = {};
  MatrixView r = {};
  MatrixView c = {};
  MatrixView d = {};
  bool trans_l = false;
  bool trans_r = false;
  float alpha = 1.0F;
  float beta = 0.0F;

  [[nodiscard]] std::int64_t m() const noexcept { return d.rows; }
  [[nodiscard]] std::int64_t n() const noexcept { return d.cols; }
  [[nodiscard]] std::int64_t k() const noexcept { return trans_l ? l.rows : l.cols; }
};

/// The most elements that an operand may span, padding included, for cuBLASLt: some of its
/// algorithms count them in 32 bits and neither the heuristic nor the call itself says so.
inline constexpr std::int64_t kMaxSpan = (std::int64_t{1} << 31) - 1;

/// `product` cut into parts whose operands stay within `max_span`: one part where it does already,
/// else parts over rows, columns and, where nothing else helps, slices of k that add up in D, in
/// order.
[[nodiscard]] std::vector<Product> tiles_of(const Product& product,
                                            std::int64_t max_span = kMaxSpan);

/// How many parts tiles_of gives, known without making them. Stops at the largest number.
[[nodiscard]] std::int64_t tile_count(const Product& product,
                                      std::int64_t max_span = kMaxSpan) noexcept;

/// Whether tiles_of gives one part.
[[nodiscard]] bool within_span(const Product& product, std::int64_t max_span = kMaxSpan) noexcept;

}  // namespace ai::kernels
