#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <span>
#include <vector>

#include "ai/executable.hpp"
#include "ai/status.hpp"
#include "held.hpp"

namespace ge_python {

namespace nb = nanobind;

/// One entry of rebind's moves: the operands that begin at `from` go to `to`.
struct Move {
  const void* from = nullptr;
  void* to = nullptr;
  std::optional<ai::Tensor> before;  ///< as given; none for an address
  std::optional<ai::Tensor> after;   ///< likewise
  nb::object owner;                  ///< of what is at `to`
};

/// `moves` (a dict or a sequence of pairs old -> new; each an address, a Tensor or an array) for an
/// executable over `operands`. TypeError for anything else; DtypeMismatch for a dtype without a
/// name, Invalid for a read-only array where an operand is written.
[[nodiscard]] std::vector<Move> moves_of(nb::handle moves,
                                         std::span<const ai::BoundOperand> operands);

/// Whether each new array looks like what it replaces: dtype, device, shape and strides (those
/// along an extent of one mean nothing), in the orientation that the old one was given in. An
/// address is taken at its word.
[[nodiscard]] ai::Status fit(std::span<const Move> moves,
                             std::span<const ai::BoundOperand> operands);

[[nodiscard]] std::vector<ai::Rebinding> rebindings_of(std::span<const Move> moves);

/// `held` with the moves' owners in place of those of what moves, which go to `moved_away`.
[[nodiscard]] Held after(std::span<const Move> moves, const Held& held,
                         std::vector<nb::object>& moved_away);

}  // namespace ge_python
