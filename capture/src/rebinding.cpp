#include "capture/rebinding.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "capture/bound_run.hpp"
#include "capture/moved_item.hpp"
#include "core/text.hpp"

namespace ai::detail {
namespace {

std::uintptr_t value_of(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

std::string name_of(const BoundOperand& operand) {
  return operand.name + " of " + operand.item;
}

std::string place_of(const Rebinding& move) {
  if (move.bytes == 0) return text("at ", move.from);
  return text("in the ", static_cast<std::int64_t>(move.bytes), " bytes from ", move.from);
}

/// Where each operand goes.
class Targets {
 public:
  explicit Targets(const std::vector<BoundOperand>& operands)
      : operands_(operands), to_(operands.size()), follows_(operands.size()) {}

  Status follow(const Rebinding& move) {
    if (move.from == nullptr && move.bytes > 0) {
      return {StatusCode::Invalid,
              text("what begins in the ", static_cast<std::int64_t>(move.bytes),
                   " bytes from null is to move, expected memory")};
    }
    if (symbolic::is_symbolic(move.from)) {
      return {StatusCode::Invalid, text("a temporary (at ", move.from,
                                        ") is to move, but its storage is the library's own")};
    }
    if (symbolic::is_symbolic(move.to)) {
      return {StatusCode::Invalid, text("operands are to move to ", move.to,
                                        ", a temporary, expected memory of the caller's")};
    }
    bool found = false;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const std::uintptr_t distance = value_of(operands_[i].tensor.data) - value_of(move.from);
      if (move.bytes == 0 ? distance != 0 : distance >= move.bytes) continue;
      found = true;
      AI_RETURN_IF_ERROR(follow(move, i, distance));
    }
    if (found) return {};
    return {StatusCode::Invalid, "no operand begins " + place_of(move)};
  }

  [[nodiscard]] std::vector<MovedOperand> moved() const {
    std::vector<MovedOperand> moved;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (follows_[i] && to_[i] != operands_[i].tensor.data) moved.push_back({i, to_[i]});
    }
    return moved;
  }

 private:
  Status follow(const Rebinding& move, std::size_t i, std::uintptr_t distance) {
    const BoundOperand& operand = operands_[i];
    const MemoryRange range = range_of(operand.tensor);
    if (move.bytes > 0 && range.end() - value_of(move.from) > move.bytes) {
      return {StatusCode::Invalid,
              name_of(operand) + " begins " + place_of(move) + " and ends beyond them"};
    }
    if (move.to == nullptr && !range.empty()) {
      return {StatusCode::Invalid,
              text(name_of(operand), " is to move to null, expected memory because it is ",
                   operand.tensor.desc.shape)};
    }
    auto* const to =
        move.to == nullptr ? nullptr : reinterpret_cast<void*>(value_of(move.to) + distance);
    if (follows_[i] && to_[i] != to) {
      return {StatusCode::Invalid, text(name_of(operand), " is to move to ", to_[i], " and to ", to,
                                        ", expected one place")};
    }
    follows_[i] = true;
    to_[i] = to;
    return {};
  }

  const std::vector<BoundOperand>& operands_;
  std::vector<void*> to_;
  std::vector<bool> follows_;
};

/// Where the moved items' steps reach now, and whether that asks for another order.
void look_at_order(const Blueprint& blueprint, Moves& moves) {
  std::size_t step = 0;
  for (const MovedItem& moved : moves.items) {
    while (step < blueprint.steps.size() && blueprint.steps[step].item < moved.index) ++step;
    for (; step < blueprint.steps.size() && blueprint.steps[step].item == moved.index; ++step) {
      moves.footprints.push_back(footprint(step, *blueprint.steps[step].step, moved.addresses));
    }
  }
  moves.in_place = blueprint.hazards.same_with(moves.footprints);
}

}  // namespace

Result<Moves> resolve(const Blueprint& blueprint, std::span<const Rebinding> moves) {
  Targets targets(blueprint.operands);
  for (const Rebinding& move : moves) AI_RETURN_IF_ERROR(targets.follow(move));
  Moves result;
  result.operands = targets.moved();
  const auto owner = [&](const MovedOperand& moved) { return blueprint.item_of[moved.index]; };
  std::vector<MovedOperand> by_item = result.operands;
  std::stable_sort(
      by_item.begin(), by_item.end(),
      [&](const MovedOperand& a, const MovedOperand& b) { return owner(a) < owner(b); });
  for (auto next = by_item.begin(); next != by_item.end();) {
    const std::size_t index = owner(*next);
    const auto first = next;
    while (next != by_item.end() && owner(*next) == index) ++next;
    Result<MovedItem> moved = move_item(blueprint, index, {first, next});
    if (!moved) return moved.status();
    result.in_place = result.in_place && moved->keeps_steps;
    result.items.push_back(std::move(*moved));
  }
  result.keeps_runs = runs_may_stand(blueprint, result.items);
  result.in_place = result.in_place && result.keeps_runs;
  if (result.in_place) look_at_order(blueprint, result);
  return result;
}

void apply(Blueprint& blueprint, Moves& moves) noexcept {
  for (const MovedOperand& moved : moves.operands) {
    blueprint.operands[moved.index].tensor.data = moved.to;
  }
  for (MovedItem& moved : moves.items) {
    BoundItem& item = blueprint.items[moved.index];
    place(item, moved);
    std::swap(item.addresses, moved.addresses);
  }
  blueprint.hazards.replace(moves.footprints);
}

Result<Blueprint> rebuilt(const Blueprint& blueprint, const Moves& moves, bool independent) {
  Blueprint next = blueprint;
  for (const MovedOperand& moved : moves.operands) {
    next.operands[moved.index].tensor.data = moved.to;
  }
  std::vector<bool> anew(next.items.size());
  for (const MovedItem& moved : moves.items) {
    place(next.items[moved.index], moved);
    anew[moved.index] = !moved.keeps_steps;
  }
  std::unique_ptr<Backend> backend;
  if (!moves.keeps_runs) {
    backend = next.workshop.make_backend();
    // What is not a run keeps its place in `anew`.
    AI_RETURN_IF_ERROR(part_runs(next, anew, *backend));
  }
  for (std::size_t i = 0; i < next.items.size(); ++i) {
    if (!anew[i] && !(independent && next.items[i].is_user())) continue;
    if (backend == nullptr) backend = next.workshop.make_backend();
    AI_RETURN_IF_ERROR(make_steps_anew(next, i, *backend));
  }
  list_steps(next);
  return next;
}

}  // namespace ai::detail
