#include <optional>
#include <tuple>
#include <utility>

#include "kernels/fused_products.hpp"
#include "kernels/gradients.hpp"
#include "kernels/lower.hpp"
#include "kernels/lt_candidates.hpp"
#include "kernels/task_recall.hpp"
#include "kernels/zero_fill.hpp"

namespace ai::kernels {
namespace {

/// A gradient of a matrix operand: the product that yields it and where that goes.
struct OperandGradient {
  const char* name;
  Product product;
  GradMode mode;
};

Product into(const Gradient& gradient, float alpha) noexcept {
  Product product;
  product.d = matrix_view(gradient.tensor);
  product.alpha = alpha;
  if (gradient.mode == GradMode::Accumulate) {
    product.c = product.d;
    product.beta = 1.0F;
  }
  return product;
}

OperandGradient gradient_of_a(const GemmBackward& call, const MatrixView& gz) noexcept {
  const GemmAttrs& attrs = call.attrs;
  OperandGradient result = {"gA", into(*call.gA, attrs.alpha), call.gA->mode};
  Product& p = result.product;
  if (attrs.trans_a) {  // stored [K,M]: op(B) gZ^T
    p.l = matrix_view(call.B);
    p.trans_l = attrs.trans_b;
    p.r = gz;
    p.trans_r = true;
  } else {  // [M,K]: gZ op(B)^T
    p.l = gz;
    p.r = matrix_view(call.B);
    p.trans_r = !attrs.trans_b;
  }
  return result;
}

OperandGradient gradient_of_b(const GemmBackward& call, const MatrixView& gz) noexcept {
  const GemmAttrs& attrs = call.attrs;
  OperandGradient result = {"gB", into(*call.gB, attrs.alpha), call.gB->mode};
  Product& p = result.product;
  if (attrs.trans_b) {  // stored [N,K]: gZ^T op(A)
    p.l = gz;
    p.trans_l = true;
    p.r = matrix_view(call.A);
    p.trans_r = attrs.trans_a;
  } else {  // [K,N]: op(A)^T gZ
    p.l = matrix_view(call.A);
    p.trans_l = !attrs.trans_a;
    p.r = gz;
  }
  return result;
}

bool is_empty(const Product& product) noexcept {
  return product.m() == 0 || product.n() == 0;
}
/// A sum over nothing, or of nothing but zeros.
bool is_zero(const Product& product) noexcept {
  return product.k() == 0 || product.alpha == 0.0F;
}
bool uses_gz(const std::optional<OperandGradient>& gradient) noexcept {
  return gradient && !is_empty(gradient->product) && !is_zero(gradient->product);
}

/// Fills `task` with the product that was found best earlier, or with all.
Status add_products(Task& task, Machine& machine, const OperandGradient& gradient,
                    const TaskRecall& recall) {
  const LtRoad road = {.family = "lt_gemm",
                       .step_name = std::string("lt_gemm ") + gradient.name,
                       .call = {.product = gradient.product}};
  if (within_span(gradient.product)) {
    if (const RecalledCandidate* known = recall()) {
      std::optional<Candidate> candidate =
          recall_fused_product(machine.api(), gradient.product, gradient.name, *known);
      if (!candidate) candidate = recall_lt(machine, road, *known);
      if (candidate) {
        task.candidates.push_back(*std::move(candidate));
        task.recalled = true;
        return {};
      }
    }
  }
  append_fused_products(machine.api(), gradient.product, gradient.name, task.candidates);
  const std::size_t before = machine.queries();
  AI_RETURN_IF_ERROR(append_products(machine, road, task.candidates));
  task.queries = machine.queries() - before;
  return {};
}

Result<Task> lower(Machine& machine, const OperandGradient& gradient, const TaskRecall& recall) {
  const std::string name = gradient.name;
  Task task;
  task.name = "backward " + name + shape_text(gradient.product.d);
  if (is_empty(gradient.product) ||
      (is_zero(gradient.product) && gradient.mode == GradMode::Accumulate)) {
    task.candidates.push_back({.name = "nothing", .reason = {}, .steps = {}});
  } else if (is_zero(gradient.product)) {
    Result<std::shared_ptr<Step>> step =
        make_zero_fill_step(machine, gradient.product.d, "zero_fill " + name);
    AI_RETURN_IF_ERROR(step.status());
    task.candidates.push_back({.name = "zero_fill", .reason = {}, .steps = {*std::move(step)}});
  } else {
    AI_RETURN_IF_ERROR(add_products(task, machine, gradient, recall));
  }
  return task;
}

/// What the first task computes, e.g. "backward gZ[64,256] gC gBias".
std::string name_of_first(const GemmBackward& call, bool stores_gz) {
  std::string name = "backward";
  if (stores_gz) name += " gZ";
  if (call.gC) name += " gC";
  if (call.gBias) name += " gBias";
  return name + shape_text(matrix_view(call.gY));
}

}  // namespace

Result<std::vector<Task>> lower_backward(Machine& machine, const GemmPlan& plan,
                                         const Recall& recall, std::size_t first) {
  const GemmBackward& call = plan.backward();
  const bool is_linear = call.attrs.act == ActKind::None;

  // The scratch gets its address first, because the products are described over it.
  const MatrixView gy = matrix_view(call.gY);
  const auto describe = [&](const MatrixView& gz) {
    std::pair<std::optional<OperandGradient>, std::optional<OperandGradient>> gradients;
    if (call.gA) gradients.first = gradient_of_a(call, gz);
    if (call.gB) gradients.second = gradient_of_b(call, gz);
    return gradients;
  };
  auto [ga, gb] = describe(gy);
  void* gz = nullptr;
  if (!is_linear && (uses_gz(ga) || uses_gz(gb))) {
    gz = symbolic::allocate(static_cast<std::size_t>(gy.rows) * static_cast<std::size_t>(gy.cols) *
                            sizeof(float));
    std::tie(ga, gb) = describe(packed(gz, gy.rows, gy.cols));
  }

  std::vector<Task> tasks;
  if (gz != nullptr || call.gC || call.gBias) {
    const Result<int> sm_count = machine.sm_count();
    AI_RETURN_IF_ERROR(sm_count.status());
    Task task = gradient_task(machine.api(), *sm_count, plan, gz, {recall, first});
    if (!task.candidates.empty()) {
      task.name = name_of_first(call, gz != nullptr);
      tasks.push_back(std::move(task));
    }
  }
  for (const std::optional<OperandGradient>* gradient : {&ga, &gb}) {
    if (!*gradient) continue;
    Result<Task> task = lower(machine, **gradient, {recall, first + tasks.size()});
    AI_RETURN_IF_ERROR(task.status());
    tasks.push_back(*std::move(task));
  }
  return tasks;
}

}  // namespace ai::kernels
