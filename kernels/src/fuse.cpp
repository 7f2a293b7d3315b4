#include "fuse.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "chain_compile_cost.hpp"
#include "chain_device.hpp"
#include "chain_step.hpp"
#include "chain_worth.hpp"
#include "core/text.hpp"
#include "cuda/kernel_image.hpp"
#include "kernels/lower.hpp"
#include "kernels/task_recall.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels {
namespace {

using chain::Form;
using chain::Network;
using chain::TargetDevice;

constexpr const char* kFamily = "chain";

/// A run on its way to a task.
struct Fusing {
  std::span<const GemmPlan> plans = {};
  Network network = {};
  std::vector<Form> forms = {};                   ///< to be had
  std::vector<cuda::RequestedImage> images = {};  ///< of these
  std::string reason = {};                        ///< why there are none
  bool recalled = false;
  Task task = {};
};

/// "forward Y[1,5] in 4 layers".
std::string name_of(std::span<const GemmPlan> plans) {
  return text("forward Y", shape_text(forward_problem(plans.back()).product.d), " in ",
              static_cast<std::int64_t>(plans.size()), plans.size() == 1 ? " layer" : " layers");
}

/// "16-64-32-32-5"; of many layers, those at either end.
std::string widths_of(const Network& network) {
  constexpr std::size_t kEnd = 6;
  const std::size_t depth = network.layers.size();
  std::string widths = std::to_string(network.layers.front().k);
  for (std::size_t l = 0; l < depth; ++l) {
    if (depth > 2 * kEnd && l == kEnd) {
      widths += "-...";
      l = depth - kEnd;
    }
    widths += "-" + std::to_string(network.layers[l].n);
  }
  return widths;
}

std::string no_shape_fits(const Network& network) {
  std::int64_t weights = 0;
  for (const chain::Layer& layer : network.layers) weights += std::int64_t{layer.k} * layer.n;
  return text("no shape of it fits: ", weights, " weights and ", network.input.rows,
              " rows go into no kernel's registers and shared memory");
}

std::string not_worth_it(const Network& network, const Form& best, const TargetDevice& device) {
  const auto tenths = [](double us) { return static_cast<float>(std::round(10 * us) / 10); };
  return text("it would take about ", tenths(estimate_us(network, best, device.machine)),
              " us, a step for each layer about ",
              tenths(plan_by_plan_us(network, device.machine)));
}

std::string too_long_to_compile(const Network& network, const Form& best) {
  const double tenths = std::round(10 * compile_seconds(network, best)) / 10;
  return text("it would take about ", static_cast<float>(tenths),
              " s to compile, and no other shape of it much less");
}

void search(Fusing& run, const TargetDevice& device, const FuseOptions& options) {
  std::vector<Form> all;
  std::vector<Form> worthy;
  const auto look_at = [&](std::size_t most) {
    all = forms_for(run.network, device.machine, most, options.cooperative);
    worthy = worthwhile(run.network, all, device.machine, options.most > 1);
    run.forms = compiled_in_time(run.network, worthy);
    run.forms.resize(std::min(run.forms.size(), options.most));
  };
  look_at(options.most);
  // The best of few may all take too long to compile; of more, some may not.
  if (run.forms.empty() && options.most < FuseOptions().most) look_at(FuseOptions().most);
  if (!run.forms.empty()) return;
  if (options.most == 0) {
    run.reason = "no candidate was asked for";
  } else if (all.empty() && !forms_for(run.network, device.machine, 1).empty()) {
    run.reason = "only kernels that are launched cooperatively could serve it; these are ruled out";
  } else if (all.empty()) {
    run.reason = no_shape_fits(run.network);
  } else if (worthy.empty()) {
    run.reason = not_worth_it(run.network, all.front(), device);
  } else {
    run.reason = too_long_to_compile(run.network, worthy.front());
  }
}

/// The form that was found best earlier; none where it is of no use.
std::optional<Form> recalled_form(const Network& network, const TargetDevice& device,
                                  const FuseOptions& options, const TaskRecall& recall) {
  const RecalledCandidate* const known = recall();
  if (known == nullptr) return std::nullopt;
  const std::optional<Form> form = chain::parse_form(known->recipe);
  if (!form || known->name != chain::name_of(*form)) return std::nullopt;
  if (!options.cooperative && launch_shape(network, *form).cooperative) return std::nullopt;
  if (!reason_against(network, *form, device.machine).empty()) return std::nullopt;
  return form;
}

Result<Fusing> begin(const PlanRun& run, const TargetDevice& device, const FuseOptions& options,
                     const TaskRecall& recall) {
  if (run.plans.empty() || run.keeps_y.size() != run.plans.size()) {
    return Status(StatusCode::Invalid,
                  text("a run of ", static_cast<std::int64_t>(run.plans.size()), " plans says of ",
                       static_cast<std::int64_t>(run.keeps_y.size()),
                       " Ys whether they are kept, expected one or more plans and each Y"));
  }
  Fusing fusing{.plans = run.plans};
  fusing.reason = device.reason_against();
  Result<Network> network = chain::network_of(run.plans, run.keeps_y);
  if (!network) {
    fusing.reason = network.status().message();
    fusing.task.name = name_of(run.plans);
    return fusing;
  }
  fusing.network = std::move(network).value();
  fusing.task.name = name_of(run.plans) + ", " + widths_of(fusing.network);
  if (run.plans.size() > chain::kMostLayers) {
    fusing.reason = text("it has ", static_cast<std::int64_t>(run.plans.size()),
                         " layers, more than ", static_cast<std::int64_t>(chain::kMostLayers));
  }
  if (!fusing.reason.empty()) return fusing;
  if (const auto form = recalled_form(fusing.network, device, options, recall)) {
    fusing.forms = {*form};
    fusing.recalled = true;
  } else {
    search(fusing, device, options);
  }
  return fusing;
}

/// Finds the images of all forms of all of `runs`.
class Compiler {
 public:
  /// All but the folder's name outlive this.
  Compiler(const cuda::Api& api, cuda::NvrtcLoader load_nvrtc, const TargetDevice& device,
           const FuseOptions& options)
      : api_(api),
        load_nvrtc_(load_nvrtc),
        device_(device),
        store_(options.kernel_folder),
        on_problem_(options.on_problem) {}

  Status operator()(std::span<Fusing* const> runs) {
    std::vector<cuda::CompileRequest> requests;
    for (const Fusing* run : runs) {
      for (const Form& form : run->forms) {
        requests.push_back(request_for(run->network, form, device_));
      }
    }
    Result<std::vector<cuda::RequestedImage>> images =
        cuda::kernel_images(api_, load_nvrtc_, store_, requests);
    AI_RETURN_IF_ERROR(images.status());
    auto next = images->begin();
    for (Fusing* run : runs) {
      run->images.clear();
      for (std::size_t i = 0; i < run->forms.size(); ++i, ++next) {
        run->task.compiled += next->compiled ? 1 : 0;
        run->task.compile_s += next->compile_s;
        tell(next->problem);
        run->images.push_back(std::move(*next));
      }
    }
    return {};
  }

 private:
  void tell(const Status& problem) {
    if (problem.ok() || has_told_ || !on_problem_) return;
    has_told_ = true;
    on_problem_(problem);
  }

  const cuda::Api& api_;
  cuda::NvrtcLoader load_nvrtc_;
  const TargetDevice& device_;
  cuda::CubinStore store_;
  const std::function<void(const Status&)>& on_problem_;
  bool has_told_ = false;
};

bool spills(const cuda::Cubin& cubin) {
  for (const cuda::ResourceUse& use : cuda::read_resource_use(cubin.log)) {
    if (use.spill_store_bytes > 0 || use.spill_load_bytes > 0) return true;
  }
  return false;
}

std::string reason_of(const Status& status) {
  return status.message().empty() ? status.to_string() : status.message();
}

/// Candidates in the order of the forms, but first those that are none, each with its reason, and
/// last those that keep some of their weights in memory after all.
void add_candidates(Fusing& run, const cuda::Api& api) {
  std::vector<Candidate> none;
  std::vector<Candidate> quick;
  std::vector<Candidate> spilling;
  bool no_compiler = false;
  if (!run.reason.empty()) none.push_back({.name = kFamily, .reason = run.reason, .steps = {}});
  for (std::size_t i = 0; i < run.images.size(); ++i) {
    const cuda::RequestedImage& requested = run.images[i];
    Candidate candidate{.name = chain::name_of(run.forms[i]), .reason = {}, .steps = {}};
    if (!requested.image) {
      const Status& status = requested.image.status();
      candidate.reason = reason_of(status);
      // Else there is no compiler, for none of the shapes.
      const bool of_shape = status.code() == StatusCode::CudaError;
      if (!of_shape) candidate.name = kFamily;
      if (of_shape || !no_compiler) none.push_back(std::move(candidate));
      no_compiler = no_compiler || !of_shape;
      continue;
    }
    candidate.recipe = chain::recipe_of(run.forms[i]);
    candidate.steps = {
        make_chain_step(api, run.plans, run.network, run.forms[i], *requested.image)};
    (spills((*requested.image)->cubin()) ? spilling : quick).push_back(std::move(candidate));
  }
  for (auto* some : {&none, &quick, &spilling}) {
    for (Candidate& candidate : *some) run.task.candidates.push_back(std::move(candidate));
  }
}

}  // namespace

Result<std::vector<Task>> fuse_chains(Machine& machine, cuda::NvrtcLoader load_nvrtc,
                                      std::span<const PlanRun> runs, const FuseOptions& options,
                                      const Recall& recall) {
  if (runs.empty()) return std::vector<Task>();
  const Result<TargetDevice> device = chain::target_device(machine.api(), machine.device());
  AI_RETURN_IF_ERROR(device.status());
  std::vector<Fusing> all;
  all.reserve(runs.size());
  std::vector<Fusing*> round;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Result<Fusing> fusing = begin(runs[i], *device, options, {recall, i});
    AI_RETURN_IF_ERROR(fusing.status());
    all.push_back(std::move(fusing).value());
    round.push_back(&all.back());
  }
  Compiler compile(machine.api(), load_nvrtc, *device, options);
  AI_RETURN_IF_ERROR(compile(round));
  // What was recalled may not be had any more.
  round.clear();
  for (Fusing& run : all) {
    if (!run.recalled || run.images.front().image.ok()) continue;
    run.recalled = false;
    search(run, *device, options);
    round.push_back(&run);
  }
  if (!round.empty()) AI_RETURN_IF_ERROR(compile(round));
  std::vector<Task> tasks;
  tasks.reserve(all.size());
  for (Fusing& run : all) {
    add_candidates(run, machine.api());
    run.task.recalled = run.recalled;
    tasks.push_back(std::move(run.task));
  }
  return tasks;
}

}  // namespace ai::kernels
