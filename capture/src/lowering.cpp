#include "capture/lowering.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "capture/choice.hpp"
#include "capture/problem_key.hpp"

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

/// Of a task that was recalled, that there is something to recall it by.
bool was_recalled(const Task& task, const std::optional<StoredChoice>& given) noexcept {
  return task.recalled && given &&
         std::any_of(task.candidates.begin(), task.candidates.end(),
                     [](const Candidate& candidate) { return candidate.applicable(); });
}

Status lower_plan(const Program::Item& item, Backend& backend, const KnownChoices& known,
                  std::vector<LoweredTask>& all) {
  const auto& plan = std::get<GemmPlan>(item);
  const std::string problem = problem_key(plan);
  std::map<std::size_t, StoredChoice> given;
  Recall recall;
  if (known) {
    recall = [&](std::size_t task) -> const RecalledCandidate* {
      const StoredChoice* const choice = known(task_key(problem, task));
      if (choice == nullptr) return nullptr;
      return &given.insert_or_assign(task, *choice).first->second.candidate;
    };
  }
  Result<std::vector<Task>> tasks = backend.lower({&plan, 1}, recall);
  if (!tasks) {
    return {tasks.status().code(), name_of(item) + ": " + tasks.status().message()};
  }
  for (std::size_t i = 0; i < tasks->size(); ++i) {
    LoweredTask lowered;
    lowered.task = std::move((*tasks)[i]);
    lowered.problem = task_key(problem, i);
    if (const auto found = given.find(i); found != given.end()) lowered.stored = found->second;
    const Task& task = lowered.task;
    if (!was_recalled(task, lowered.stored)) {
      lowered.is_refused = lowered.stored.has_value();
      lowered.stored.reset();
      if (task.candidates.empty() || !task.candidates.back().applicable()) {
        return {
            StatusCode::Unsupported,
            task.name + ": the backend has no way to do it" +
                (task.candidates.empty() ? std::string() : ": " + task.candidates.back().reason)};
      }
    }
    all.push_back(std::move(lowered));
  }
  return {};
}

}  // namespace

Result<std::vector<LoweredTask>> lower_item(const Program::Item& item, std::size_t index,
                                            Backend& backend, Target target,
                                            const CopyMaker& make_copy, const KnownChoices& known) {
  std::vector<LoweredTask> tasks;
  if (std::holds_alternative<GemmPlan>(item)) {
    AI_RETURN_IF_ERROR(lower_plan(item, backend, known, tasks));
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

Result<std::vector<LoweredTask>> lower_known(const Program::Item& item, std::size_t index,
                                             Backend& backend, Target target,
                                             const CopyMaker& make_copy, const KnownChoices& known,
                                             Status& refused) {
  bool was_given = false;
  KnownChoices noting;
  if (known) {
    noting = [&](const std::string& problem) {
      const StoredChoice* const choice = known(problem);
      was_given = was_given || choice != nullptr;
      return choice;
    };
  }
  Result<std::vector<LoweredTask>> tasks =
      lower_item(item, index, backend, target, make_copy, noting);
  if (!was_given) return tasks;
  Status failure = tasks.status();
  std::size_t queries = 0;
  for (std::size_t i = 0; tasks && i < tasks->size(); ++i) {
    const LoweredTask& lowered = (*tasks)[i];
    queries += lowered.task.queries;
    if (lowered.is_refused) {
      refused = {StatusCode::Unsupported, lowered.task.name + ": the backend cannot make it"};
    } else if (lowered.stored && failure.ok()) {
      const auto chosen = static_cast<std::size_t>(take_stored(lowered).candidate);
      failure = prepare(lowered.task.candidates[chosen]);
    }
  }
  if (failure.ok()) return tasks;
  refused = std::move(failure);
  tasks = lower_item(item, index, backend, target, make_copy);
  if (tasks) tasks->front().task.queries += queries;
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
