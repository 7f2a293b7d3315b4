#include "capture/problem_key.hpp"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ai/memory.hpp"
#include "ai/program.hpp"
#include "capture/lowering.hpp"
#include "capture/text_hash.hpp"

namespace ai::detail {
namespace {

/// As short as can be read back exactly. Minus zero is zero.
std::string exact(float value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value == 0.0F ? 0.0F : value);
  return {digits, end.ptr};
}

std::string_view name_of(Precision precision) noexcept {
  switch (precision) {
    case Precision::F32: return "F32";
  }
  return "unknown";
}

void add_extents(std::string& key, const Operand& operand) {
  const TensorDesc& desc = operand.tensor->desc;
  key += " " + operand.name + "[";
  for (int i = 0; i < desc.shape.rank(); ++i) {
    key += (i > 0 ? "," : "") + std::to_string(desc.shape[i]);
  }
  key += "]/" + std::to_string(desc.stride[0]);
}

/// Where operands begin matters to kernels only by alignment and by which of them share memory.
/// One without elements begins nowhere.
void add_place(std::string& key, const std::vector<Operand>& operands, std::size_t index) {
  const Tensor& tensor = *operands[index].tensor;
  if (range_of(tensor).empty()) return;
  key += "@" + std::to_string(alignment_of(tensor.data));
  for (std::size_t i = 0; i < index; ++i) {
    if (operands[i].tensor->data != tensor.data || range_of(*operands[i].tensor).empty()) continue;
    key += "=" + operands[i].name;
    return;
  }
}

bool is_added_to(const GemmPlan& plan, const Tensor* tensor) noexcept {
  if (plan.direction() == GemmPlan::Direction::Forward) return false;
  const GemmBackward& call = plan.backward();
  for (const auto* gradient : {&call.gA, &call.gB, &call.gC, &call.gBias}) {
    if (*gradient && &(*gradient)->tensor == tensor) {
      return (*gradient)->mode == GradMode::Accumulate;
    }
  }
  return false;
}

}  // namespace

std::string problem_key(const GemmPlan& plan) {
  const GemmAttrs& attrs = plan.attrs();
  std::string key = plan.direction() == GemmPlan::Direction::Forward ? "forward" : "backward";
  key += " M=" + std::to_string(plan.m());
  key += " N=" + std::to_string(plan.n());
  key += " K=" + std::to_string(plan.k());
  key += std::string(" trans=") + (attrs.trans_a ? "A" : "-") + (attrs.trans_b ? "B" : "-");
  key += std::string(" bias=") + to_string(plan.bias_kind());
  key += std::string(" act=") + to_string(attrs.act);
  if (attrs.act == ActKind::LeakyReLU) key += "(" + exact(attrs.leaky_slope) + ")";
  key += " alpha=" + exact(attrs.alpha) + " beta=" + exact(attrs.beta) + " ";
  key += name_of(attrs.precision);
  const std::vector<Operand> operands = operands_of(plan);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    add_extents(key, operands[i]);
    add_place(key, operands, i);
    if (is_added_to(plan, operands[i].tensor)) key += "+=";
  }
  return key;
}

std::string problem_key(const PlanRun& run) {
  std::string key = "run of " + std::to_string(run.plans.size()) + " layers ";
  for (const bool keeps : run.keeps_y) key += keeps ? 'Y' : '-';
  key += ":";
  for (std::size_t i = 0; i < run.plans.size(); ++i) {
    key += (i > 0 ? "; " : " ") + problem_key(run.plans[i]);
  }
  return key;
}

std::string task_key(const std::string& problem, std::size_t task) {
  return problem + " #" + std::to_string(task);
}

std::string key_in(const std::string& task, const std::string& context) {
  return task + " in " + context;
}

std::string context_of(const Program& program) {
  TextHash hash;
  for (const Program::Item& item : program.items()) {
    const auto* const plan = std::get_if<GemmPlan>(&item);
    hash.add(plan != nullptr ? problem_key(*plan) : name_of(item));
  }
  return hash.text();
}

}  // namespace ai::detail
