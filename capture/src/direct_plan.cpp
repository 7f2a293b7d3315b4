#include "capture/direct_plan.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include "ai/program.hpp"
#include "capture/choice.hpp"
#include "capture/lowering.hpp"
#include "capture/recollection.hpp"
#include "capture/tuner.hpp"

namespace ai::detail {
namespace {

// Where operands stand in for others: addresses as a GPU could have them, since libraries look at
// them when a call is tried out, and below those of scratch. Nothing ever uses memory there.
constexpr std::uintptr_t kFirstPlace = std::uintptr_t{1} << 45;
constexpr std::uintptr_t kEndOfPlaces = std::uintptr_t{1} << 46;
constexpr std::uintptr_t kPlaceAlignment = 256;

/// A plan as a call over the same operands.
DirectCall call_of(const GemmPlan& plan) noexcept {
  return plan.direction() == GemmPlan::Direction::Forward ? DirectCall(plan.forward())
                                                          : DirectCall(plan.backward());
}

bool needs_scratch(const Candidate& candidate) noexcept {
  for (const std::shared_ptr<Step>& step : candidate.steps) {
    for (const MemoryRange& range : step->writes()) {
      const void* begin = reinterpret_cast<const void*>(range.begin);
      if (!range.empty() && symbolic::is_symbolic(begin)) return true;
    }
  }
  return false;
}

/// The steps that capture would choose without measuring.
Result<std::vector<std::shared_ptr<Step>>> chosen(const cuda::Api& api, int device,
                                                  const std::vector<LoweredTask>& lowered) {
  TunerSettings settings;
  settings.measure = false;
  const Result<std::vector<Choice>> choices = choose(api, device, lowered, {}, settings);
  AI_RETURN_IF_ERROR(choices.status());
  return chosen_steps(lowered, *choices);
}

/// Leaves the candidates that need no scratch. False where one of the tasks cannot do without.
bool drop_scratch(std::vector<LoweredTask>& lowered) {
  bool possible = true;
  for (LoweredTask& each : lowered) {
    std::vector<Candidate>& candidates = each.task.candidates;
    std::erase_if(candidates, needs_scratch);
    // What the others are checked against has to stay; a recalled one was checked when it was
    // measured.
    possible = possible && (each.stored ? applicable(each.task) > 0
                                        : !candidates.empty() && candidates.back().applicable() &&
                                              candidates.back().trusted);
  }
  return possible;
}

}  // namespace

Result<std::shared_ptr<DirectPlan>> DirectPlan::make(const cuda::Api& api, const DirectCall& call,
                                                     const GemmPlan& plan, Backend& backend) {
  const DirectCall planned = call_of(plan);  // the same slots, normalised
  std::array<bool, DirectCall::kMostSlots> touched{};
  for (const Operand& used : operands_of(plan)) {
    for (std::size_t slot = 0; slot < call.slots(); ++slot) {
      if (planned.operand(slot) == used.tensor) touched[slot] = !range_of(*used.tensor).empty();
    }
  }
  std::array<void*, DirectCall::kMostSlots> places{};
  std::array<std::size_t, DirectCall::kMostSlots> bytes{};
  std::vector<std::size_t> mapped;
  std::uintptr_t next = kFirstPlace;
  for (std::size_t slot = 0; slot < call.slots(); ++slot) {
    if (!touched[slot]) continue;
    const Tensor& operand = *planned.operand(slot);
    const MemoryRange range = range_of(operand);
    bytes[slot] = range.end() - range.begin;
    if (next >= kEndOfPlaces || bytes[slot] >= kEndOfPlaces - next) {
      return Status(StatusCode::Invalid, "an operand spans " + std::to_string(bytes[slot]) +
                                             " bytes, more than any device holds");
    }
    if (call.in_place() && slot == DirectCall::kForwardY && touched[DirectCall::kForwardC]) {
      places[slot] = places[DirectCall::kForwardC];
      continue;
    }
    const std::uintptr_t place = next + alignment_of(operand.data) % kPlaceAlignment;
    places[slot] = reinterpret_cast<void*>(place);
    mapped.push_back(slot);
    next = (place + bytes[slot] + 2 * kPlaceAlignment) & ~(kPlaceAlignment - 1);
  }

  Result<GemmPlan> prototype = call.plan_at(places);
  AI_RETURN_IF_ERROR(prototype.status());
  std::shared_ptr<DirectPlan> made(new DirectPlan(std::move(prototype).value()));
  made->places_ = places;
  made->bytes_ = bytes;
  made->mapped_ = std::move(mapped);
  made->in_place_ = call.in_place();
  made->touched_ = touched;

  const Result<std::vector<LoweredTask>> tasks = made->lower(api, backend, true);
  AI_RETURN_IF_ERROR(tasks.status());
  Result<std::vector<std::shared_ptr<Step>>> steps = chosen(api, call.device(), *tasks);
  AI_RETURN_IF_ERROR(steps.status());
  made->eager_ = made->road(std::move(steps).value());
  return made;
}

Result<std::vector<LoweredTask>> DirectPlan::lower(const cuda::Api& api, Backend& backend,
                                                   bool recalls) const {
  Recollection file(api, prototype_.device_index(), backend,
                    recalls ? tuning_cache_path() : std::string(), {});
  KnownChoices known;
  if (!file.path().empty()) {
    known = [&](const std::string& problem) { return file.find(problem); };
  }
  Status refused;  // others are chosen as if nothing were known
  return lower_known(prototype_, 0, backend, Target::CUDA, {}, known, refused);
}

DirectRoad DirectPlan::road(std::vector<std::shared_ptr<Step>> steps) const {
  DirectRoad road;
  road.steps = std::move(steps);
  std::vector<const Step*> plain;
  std::vector<std::vector<int>> one_after_the_other;
  for (const std::shared_ptr<Step>& step : road.steps) {
    const auto index = static_cast<int>(plain.size());
    one_after_the_other.push_back(index > 0 ? std::vector<int>{index - 1} : std::vector<int>{});
    plain.push_back(step.get());
  }
  road.scratch = plan_workspace(plain, one_after_the_other, {});
  for (const std::size_t slot : mapped_) {
    const auto place = reinterpret_cast<std::uintptr_t>(places_[slot]);
    road.addresses.add(place, bytes_[slot], nullptr);
  }
  for (const Placement& placement : road.scratch.placements) {
    road.addresses.add(placement.address, placement.bytes, nullptr);
  }
  return road;
}

Result<const DirectRoad*> DirectPlan::captured(const cuda::Api& api, BackendMaker make_backend) {
  if (eager_.scratch.bytes == 0) return &eager_;
  const std::scoped_lock lock(mutex_);
  if (captured_) return &*captured_;
  const std::unique_ptr<Backend> backend = make_backend(prototype_.device_index());
  for (const bool recalls : {true, false}) {
    Result<std::vector<LoweredTask>> tasks = lower(api, *backend, recalls);
    AI_RETURN_IF_ERROR(tasks.status());
    if (!drop_scratch(*tasks)) continue;
    Result<std::vector<std::shared_ptr<Step>>> steps =
        chosen(api, prototype_.device_index(), *tasks);
    AI_RETURN_IF_ERROR(steps.status());
    captured_ = road(std::move(steps).value());
    return &*captured_;
  }
  captured_ = eager_;
  return &*captured_;
}

bool DirectPlan::may_overlap(const DirectCall& call) const noexcept {
  const auto begin_of = [&](std::size_t slot) {
    return reinterpret_cast<std::uintptr_t>(call.operand(slot)->data);
  };
  for (std::size_t slot = 0; slot < call.slots(); ++slot) {
    if (!touched_[slot]) continue;
    const std::uintptr_t begin = begin_of(slot);
    const std::uintptr_t end = begin + bytes_[slot];
    if (end < begin) return true;  // no operand reaches past the last address
    if (slot < call.first_output()) continue;
    for (std::size_t other = 0; other < call.slots(); ++other) {
      if (other == slot || !touched_[other]) continue;
      if (in_place_ && slot == DirectCall::kForwardY && other == DirectCall::kForwardC) continue;
      const std::uintptr_t from = begin_of(other);
      if (begin < from + bytes_[other] && from < end) return true;
    }
  }
  return false;
}

void DirectPlan::bind(const DirectRoad& road, const DirectCall& call, void* scratch,
                      AddressMap& addresses) const {
  addresses = road.addresses;
  std::size_t entry = 0;
  for (const std::size_t slot : mapped_) addresses.retarget(entry++, call.operand(slot)->data);
  for (const Placement& placement : road.scratch.placements) {
    addresses.retarget(entry++, static_cast<std::byte*>(scratch) + placement.offset);
  }
}

}  // namespace ai::detail
