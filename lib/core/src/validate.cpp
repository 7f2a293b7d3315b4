#include "core/validate.hpp"

#include <string_view>

#include "core/validate_rules.hpp"

#ifndef GE_DISABLE_RULE
#define GE_DISABLE_RULE ""  // tests/mutation names the rule to leave out
#endif

namespace ai::validation {
namespace {

struct Rule {
  std::string_view name;
  Status (*check)(const Call&);
};

constexpr Rule kRules[] = {
    {"act", rules::act},
    {"precision", rules::precision},
    {"alpha", rules::alpha},
    {"beta", rules::beta},
    {"slope", rules::slope},
    {"grad_mode", rules::grad_mode},

    {"required", rules::required},
    {"with_bias", rules::with_bias},
    {"save_z", rules::save_z},
    {"forward_c", rules::forward_c},
    {"backward_c", rules::backward_c},
    {"backward_z", rules::backward_z},
    {"any_gradient", rules::any_gradient},

    {"device_kind", rules::device_kind},
    {"device_index", rules::device_index},
    {"device", rules::device},
    {"dtype_kind", rules::dtype_kind},
    {"dtype", rules::dtype},
    {"layout_kind", rules::layout_kind},
    {"layout", rules::layout},
    {"rank", rules::rank},
    {"stride_rank", rules::stride_rank},
    {"extents", rules::extents},
    {"shape", rules::shape},
    {"bias_shape", rules::bias_shape},

    {"expanded", rules::expanded},
    {"inner_stride", rules::inner_stride},
    {"leading_dimension", rules::leading_dimension},
    {"bias_stride", rules::bias_stride},
    {"span", rules::span},
    {"null_data", rules::null_data},
    {"alignment", rules::alignment},
    {"overlap", rules::overlap},
};

constexpr std::string_view kDisabled = GE_DISABLE_RULE;

constexpr bool is_rule(std::string_view name) {
  for (const Rule& rule : kRules) {
    if (rule.name == name) return true;
  }
  return false;
}
static_assert(kDisabled.empty() || is_rule(kDisabled), "GE_DISABLE_RULE names no rule");

}  // namespace

Status validate(const Call& call) {
  for (const Rule& rule : kRules) {
    if (rule.name == kDisabled) continue;
    AI_RETURN_IF_ERROR(rule.check(call));
  }
  return {};
}

}  // namespace ai::validation
