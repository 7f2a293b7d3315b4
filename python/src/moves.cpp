#include "moves.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "operand.hpp"
#include "pointer.hpp"
#include "status.hpp"
#include "tensor_desc.hpp"

namespace ge_python {
namespace {

std::string name_of(const ai::BoundOperand& operand) {
  return operand.name + " of " + operand.item;
}

bool is_address(nb::handle object) {
  return PyLong_Check(object.ptr()) != 0 && !PyBool_Check(object.ptr());
}

/// What errors call the memory at `from`, and how it is used.
std::pair<std::string, Use> role_of(const void* from, std::span<const ai::BoundOperand> operands) {
  std::string name = "new";
  Use use = Use::Read;
  for (const ai::BoundOperand& operand : operands) {
    if (operand.tensor.data != from || use == Use::Write) continue;
    name = "the new " + name_of(operand);
    if (operand.is_written) use = Use::Write;
  }
  return {std::move(name), use};
}

Move move_of(nb::handle old, nb::handle fresh, std::span<const ai::BoundOperand> operands) {
  Move move;
  if (is_address(old)) {
    move.from = reinterpret_cast<const void*>(pointer_of(old, "old"));
  } else {
    move.before = step_operand(old, "old", Use::Read, Hold::Call).tensor;
    move.from = move.before->data;
  }
  if (is_address(fresh)) {
    move.to = reinterpret_cast<void*>(pointer_of(fresh, "new"));
    return move;
  }
  const auto [name, use] = role_of(move.from, operands);
  Operand operand = step_operand(fresh, name.c_str(), use, Hold::Keep);
  move.to = operand.tensor.data;
  move.after = operand.tensor;
  move.owner = std::move(operand.owner);
  return move;
}

/// Shape and strides without what means nothing: extents of one, and every stride where there are
/// no elements.
ai::TensorDesc essence_of(const ai::TensorDesc& desc) {
  const int rank = std::min(desc.shape.rank(), ai::Extents::kMaxRank);
  bool is_empty = false;
  for (int i = 0; i < rank; ++i) is_empty = is_empty || desc.shape[i] == 0;
  ai::TensorDesc essence;
  std::array<std::int64_t, ai::Extents::kMaxRank> shape{};
  std::array<std::int64_t, ai::Extents::kMaxRank> stride{};
  int count = 0;
  for (int i = 0; i < rank; ++i) {
    if (desc.shape[i] == 1) continue;
    shape[static_cast<std::size_t>(count)] = desc.shape[i];
    stride[static_cast<std::size_t>(count++)] = is_empty ? 0 : desc.stride[i];
  }
  essence.shape = leading(shape, count);
  essence.stride = leading(stride, count);
  return essence;
}

ai::TensorDesc turned(ai::TensorDesc essence) {
  if (essence.shape.rank() == 2) {
    std::swap(essence.shape[0], essence.shape[1]);
    std::swap(essence.stride[0], essence.stride[1]);
  }
  return essence;
}

std::string place_of(const ai::Tensor& tensor) {
  std::string place = ai::to_string(tensor.device);
  if (tensor.device == ai::Device::CUDA) place += ":" + std::to_string(tensor.device_index);
  return place;
}

ai::Status mismatch(ai::StatusCode code, const ai::BoundOperand& operand, const std::string& given,
                    const std::string& wanted) {
  return {code, "the new " + name_of(operand) + " " + given + ", expected " + wanted +
                    " as what it replaces"};
}

/// `fresh` against `old`, which is the operand itself or how the caller sees it.
ai::Status like(const ai::Tensor& fresh, const ai::TensorDesc& old, bool may_turn,
                const ai::BoundOperand& operand) {
  const ai::TensorDesc given = essence_of(fresh.desc);
  const ai::TensorDesc wanted = essence_of(old);
  const ai::TensorDesc wanted_turned = may_turn ? turned(wanted) : wanted;
  const auto same = [&](const ai::TensorDesc& other) {
    return given.shape == other.shape && given.stride == other.stride;
  };
  if (same(wanted) || same(wanted_turned)) return {};
  if (given.shape != wanted.shape && given.shape != wanted_turned.shape) {
    return mismatch(ai::StatusCode::ShapeMismatch, operand, ai::text("is ", fresh.desc.shape),
                    ai::text(old.shape));
  }
  return mismatch(ai::StatusCode::StrideMismatch, operand,
                  ai::text("has strides ", fresh.desc.stride), ai::text(old.stride));
}

ai::Status fits(const Move& move, const ai::BoundOperand& operand) {
  const ai::Tensor& fresh = *move.after;
  const ai::Tensor& old = operand.tensor;
  if (fresh.desc.dtype != old.desc.dtype) {
    return mismatch(ai::StatusCode::DtypeMismatch, operand,
                    ai::text("is ", ai::to_string(fresh.desc.dtype)),
                    ai::to_string(old.desc.dtype));
  }
  if (fresh.device != old.device || fresh.device_index != old.device_index) {
    return mismatch(ai::StatusCode::DeviceMismatch, operand, "is on " + place_of(fresh),
                    place_of(old));
  }
  if (move.before) AI_RETURN_IF_ERROR(like(fresh, move.before->desc, false, operand));
  // A transposed view stands for an operand that is stored the other way round.
  return like(fresh, old.desc, move.before.has_value(), operand);
}

}  // namespace

std::vector<Move> moves_of(nb::handle moves, std::span<const ai::BoundOperand> operands) {
  std::vector<Move> result;
  const bool is_dict = nb::isinstance<nb::dict>(moves);
  if (!is_dict && !nb::isinstance<nb::list>(moves) && !nb::isinstance<nb::tuple>(moves)) {
    refuse_type("moves", moves, "a dict old -> new or a list of pairs (old, new)");
  }
  const nb::object pairs =
      is_dict ? nb::object(nb::borrow<nb::dict>(moves).items()) : nb::borrow(moves);
  for (const nb::handle pair : pairs) {
    if ((!nb::isinstance<nb::tuple>(pair) && !nb::isinstance<nb::list>(pair)) ||
        nb::len(pair) != 2) {
      throw nb::type_error("moves holds something that is no pair (old, new)");
    }
    result.push_back(move_of(nb::object(pair[0]), nb::object(pair[1]), operands));
  }
  return result;
}

ai::Status fit(std::span<const Move> moves, std::span<const ai::BoundOperand> operands) {
  for (const Move& move : moves) {
    if (!move.after) continue;
    for (const ai::BoundOperand& operand : operands) {
      if (operand.tensor.data == move.from) AI_RETURN_IF_ERROR(fits(move, operand));
    }
  }
  return {};
}

std::vector<ai::Rebinding> rebindings_of(std::span<const Move> moves) {
  std::vector<ai::Rebinding> result;
  for (const Move& move : moves) result.push_back({move.from, move.to, 0});
  return result;
}

Held after(std::span<const Move> moves, const Held& held, std::vector<nb::object>& moved_away) {
  Held next;
  next.functions = held.functions;
  next.reserve_more(held.owners.size() + moves.size());
  for (const HeldOwner& owner : held.owners) {
    const bool moves_away = std::any_of(moves.begin(), moves.end(),
                                        [&](const Move& move) { return move.from == owner.data; });
    if (moves_away) {
      moved_away.push_back(owner.object);
    } else {
      next.owners.push_back(owner);
    }
  }
  for (const Move& move : moves) next.add(move.to, move.owner);
  return next;
}

}  // namespace ge_python
