#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "ai/program.hpp"

namespace ai::detail {

/// Forward plans of a program that one kernel may carry out, the A of each being the Y of the one
/// before it. The run stands where its FIRST plan stood: the others move up to it.
struct Run {
  std::vector<std::size_t> items = {};  ///< positions in the program, ascending
  /// For each of them whether its Y has to be written: not where it lies in a temporary and nothing
  /// reads that value but the next plan of the run, by its A. The last one's always is, and so is
  /// every Z.
  std::vector<bool> keeps_y = {};
};

using PlanTest = std::function<bool(const GemmPlan&)>;

/// The runs of a program's `items`, in the order of their first plans. No plan is in two of them,
/// and none could be longer at its end. May throw std::bad_alloc.
///
/// Each run begins at the first plan that is in none yet and takes in, again and again, the next
/// plan that can follow. It follows where
/// * its A is the last plan's Y: the same rows and columns of the same memory, not transposed. So
///   all have the same M; a program has one device.
/// * it may move up. An item that it moves over (one behind the run's first plan, in front of it,
///   and neither in this run nor in an earlier one, which moved up farther) writes nothing that the
///   plan reads (it would be read too early) and neither reads nor writes what the plan writes (it
///   would see a value of the future, or leave the older of two). An item may read what the run
///   writes in front of it, as another plan does where the network forks: what is in front stays
///   there. Of all pairs of items whose order changes, none is in conflict, with all runs in place.
/// * nothing but that A ties it to the plans of the run, since blocks of one kernel may be at
///   different plans at one time: it reads nothing that they write (B, bias, C) and writes nothing,
///   not in part, that they read (the first A, B, bias, C) or write (Y, Z). C may be its own Y.
/// Backward plans, empty ones (M, N or K is 0), those that do not read A (alpha is 0) and those
/// that `may_run` (if given) is false for are in no run; one ends where it has `most` plans. A plan
/// that has no other beside it is a run where `alone` is true for it.
[[nodiscard]] std::vector<Run> find_runs(std::span<const Program::Item> items,
                                         const PlanTest& may_run = {},
                                         std::size_t most = std::numeric_limits<std::size_t>::max(),
                                         const PlanTest& alone = {});

/// Whether `runs`, found in `items` when some of their operands lay elsewhere, may stand as they
/// are, all of them together. In the order of their first plans. May throw std::bad_alloc.
[[nodiscard]] bool may_stand(std::span<const Program::Item> items, std::span<const Run> runs);

}  // namespace ai::detail
