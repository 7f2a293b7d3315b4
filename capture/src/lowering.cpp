#include "capture/lowering.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

namespace ai::detail {
namespace {

using UserFunction = std::function<Status(const StepContext&)>;

/// A user step, handed its tensors over the addresses of the recording at hand.
class UserCallStep final : public Step {
 public:
  UserCallStep(const UserStep& user, UserFunction function)
      : Step(user.name, ranges_of(user.reads), ranges_of(user.writes)),
        user_reads_(user.reads),
        user_writes_(user.writes),
        mapped_reads_(user.reads),
        mapped_writes_(user.writes),
        function_(std::move(function)) {}

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    const auto map = [&](const Tensor& tensor) { return addresses(tensor); };
    std::transform(user_reads_.begin(), user_reads_.end(), mapped_reads_.begin(), map);
    std::transform(user_writes_.begin(), user_writes_.end(), mapped_writes_.begin(), map);
    return function_({stream, mapped_reads_, mapped_writes_});
  }

 private:
  std::vector<Tensor> user_reads_;
  std::vector<Tensor> user_writes_;
  // Kept, so that a launch on the host allocates nothing.
  std::vector<Tensor> mapped_reads_;
  std::vector<Tensor> mapped_writes_;
  UserFunction function_;
};

Result<LoweredTask> lower_user(const UserStep& user, Target target) {
  const UserFunction& function = target == Target::CUDA ? user.cuda : user.host;
  if (!function) {
    return Status(StatusCode::Invalid,
                  "step '" + user.name + "' has no " + (target == Target::CUDA ? "cuda" : "host") +
                      " function, which Target::" + to_string(target) + " needs");
  }
  Candidate candidate;
  candidate.name = "user";
  candidate.steps.push_back(std::make_shared<UserCallStep>(user, function));
  LoweredTask lowered;
  lowered.task.name = "step '" + user.name + "'";
  lowered.task.candidates.push_back(std::move(candidate));
  lowered.fixed = true;
  return lowered;
}

Result<LoweredTask> lower_copy(const Program::Item& item, const CopyMaker& make_copy) {
  Result<std::shared_ptr<Step>> step = make_copy(std::get<CopyStep>(item));
  if (!step) return step.status();
  LoweredTask lowered;
  lowered.task.name = name_of(item);
  lowered.task.candidates.push_back({"copy", {}, true, {std::move(*step)}});
  lowered.fixed = true;
  return lowered;
}

/// Builds the text that equal problems have in common.
class ProblemKey {
 public:
  explicit ProblemKey(const GemmPlan& plan) {
    const GemmAttrs& attrs = plan.attrs();
    number(static_cast<std::int64_t>(plan.direction()));
    number(plan.m());
    number(plan.n());
    number(plan.k());
    number(static_cast<std::int64_t>(plan.bias_kind()));
    number((attrs.trans_a ? 1 : 0) + (attrs.trans_b ? 2 : 0));
    number(static_cast<std::int64_t>(attrs.act));
    number(static_cast<std::int64_t>(attrs.precision));
    for (const float value : {attrs.leaky_slope, attrs.alpha, attrs.beta}) {
      number(std::bit_cast<std::int32_t>(value));
    }
    if (plan.direction() == GemmPlan::Direction::Backward) {
      const GemmBackward& call = plan.backward();
      for (const auto* gradient : {&call.gA, &call.gB, &call.gC, &call.gBias}) {
        number(gradient->has_value() ? 1 + static_cast<std::int64_t>((*gradient)->mode) : 0);
      }
    }
  }

  /// Where operands begin matters to kernels only by alignment and by which of them share memory.
  void operand(const NamedTensor& named) {
    const Tensor& tensor = named.tensor;
    text_ += named.name + ":";
    for (int i = 0; i < tensor.desc.shape.rank(); ++i) {
      number(tensor.desc.shape[i]);
      number(tensor.desc.stride[i]);
    }
    number(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.data) % 256));
    std::int64_t first = 0;
    for (const void* data : seen_) {
      if (data == tensor.data) break;
      ++first;
    }
    number(first);
    seen_.push_back(tensor.data);
  }

  void number(std::int64_t value) { text_ += std::to_string(value) + ","; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
  std::vector<const void*> seen_;
};

Status lower_plan(const Program::Item& item, Backend& backend, std::vector<LoweredTask>& all) {
  const auto& plan = std::get<GemmPlan>(item);
  Result<std::vector<Task>> tasks = backend.lower({&plan, 1});
  if (!tasks) {
    return {tasks.status().code(), name_of(item) + ": " + tasks.status().message()};
  }
  ProblemKey key(plan);
  for (const NamedTensor& operand : operands_of(item)) key.operand(operand);
  for (std::size_t i = 0; i < tasks->size(); ++i) {
    Task& task = (*tasks)[i];
    if (task.candidates.empty() || !task.candidates.back().applicable()) {
      return {StatusCode::Unsupported,
              task.name + ": the backend has no way to do it" +
                  (task.candidates.empty() ? std::string() : ": " + task.candidates.back().reason)};
    }
    LoweredTask lowered;
    lowered.task = std::move(task);
    lowered.problem = key.text() + "#" + std::to_string(i);
    all.push_back(std::move(lowered));
  }
  return {};
}

}  // namespace

Result<std::vector<LoweredTask>> lower_item(const Program::Item& item, std::size_t index,
                                            Backend& backend, Target target,
                                            const CopyMaker& make_copy) {
  std::vector<LoweredTask> tasks;
  if (std::holds_alternative<GemmPlan>(item)) {
    AI_RETURN_IF_ERROR(lower_plan(item, backend, tasks));
  } else {
    const auto* user = std::get_if<UserStep>(&item);
    Result<LoweredTask> lowered =
        user != nullptr ? lower_user(*user, target) : lower_copy(item, make_copy);
    if (!lowered) return lowered.status();
    tasks.push_back(std::move(*lowered));
  }
  for (LoweredTask& task : tasks) task.item = index;
  return tasks;
}

Result<std::vector<LoweredTask>> lower(const Program& program, Backend& backend, Target target,
                                       const CopyMaker& make_copy) {
  std::vector<LoweredTask> all;
  for (std::size_t i = 0; i < program.items().size(); ++i) {
    Result<std::vector<LoweredTask>> tasks =
        lower_item(program.items()[i], i, backend, target, make_copy);
    if (!tasks) return tasks;
    std::move(tasks->begin(), tasks->end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace ai::detail
