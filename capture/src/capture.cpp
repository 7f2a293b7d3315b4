#include "ai/capture.hpp"

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "capture/choice.hpp"
#include "capture/copy_step.hpp"
#include "capture/host_executable.hpp"
#include "capture/lowering.hpp"
#ifdef GE_WITH_CUDA
#include "ai/kernels/backend_factory.hpp"
#include "capture/cuda_capture.hpp"
#endif

namespace ai {
namespace {

/// Target::Auto settled, and the target held against the program's tensors.
Result<Target> resolve(const Program& program, Target wanted) {
  const Target natural = program.device() == Device::CPU ? Target::Host : Target::CUDA;
  if (wanted == Target::Auto || wanted == natural) return natural;
  return Status(StatusCode::DeviceMismatch,
                std::string("the target is ") + to_string(wanted) +
                    ", but the program's tensors live on Device::" + to_string(program.device()));
}

std::vector<Node> nodes_of(const std::vector<const Step*>& steps,
                           std::vector<std::vector<int>> dependencies) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    nodes.push_back({steps[i]->name(), "host", std::move(dependencies[i])});
  }
  return nodes;
}

Result<Executable> capture_host(const Program& program) {
  const std::unique_ptr<Backend> backend = make_host_backend();
  Result<std::vector<detail::LoweredTask>> tasks =
      detail::lower(program, *backend, Target::Host, detail::make_host_copy);
  if (!tasks) return tasks.status();
  Result<std::vector<detail::Choice>> choices = detail::take_first(*tasks);
  if (!choices) return choices.status();

  std::vector<std::shared_ptr<Step>> owned = detail::chosen_steps(*tasks, *choices);
  std::vector<const Step*> steps;
  for (const auto& step : owned) steps.push_back(step.get());
  std::vector<std::vector<int>> dependencies = ai::dependencies(steps);
  const detail::WorkspacePlan workspace =
      detail::plan_workspace(steps, dependencies, detail::temporaries_of(program));

  ExecutableInfo info;
  info.target = Target::Host;
  info.workspace_bytes = workspace.bytes;
  info.explain = detail::explain(*tasks, *choices);
  info.nodes = nodes_of(steps, std::move(dependencies));
  info.dot = detail::dot(info.nodes);
  Result<std::unique_ptr<Executable::Impl>> impl =
      detail::make_host_executable(std::move(owned), workspace, std::move(info));
  if (!impl) return impl.status();
  return Executable(std::move(*impl));
}

#ifdef GE_WITH_CUDA
Result<Executable> capture_cuda(const Program& program, const CaptureOptions& options) {
  const std::unique_ptr<Backend> backend = kernels::make_cuda_backend(program.device_index());
  return detail::capture_with(cuda::runtime_api(), *backend, program, options,
                              detail::tuner_settings(options));
}

Status cuda_target_available() {
  return detail::cuda_available(cuda::runtime_api());
}
#else
Status cuda_target_available() {
  return {StatusCode::Unsupported, "this build has no CUDA target (it was built without CUDA)"};
}

Result<Executable> capture_cuda(const Program&, const CaptureOptions&) {
  return cuda_target_available();
}
#endif

Result<Executable> capture_any(const Program& program, const CaptureOptions& options) {
  if (program.empty()) return Status(StatusCode::Invalid, "the program is empty");
  Result<Target> target = resolve(program, options.target);
  if (!target) return target.status();
  return *target == Target::Host ? capture_host(program) : capture_cuda(program, options);
}

}  // namespace

Result<Executable> capture(const Program& program, const CaptureOptions& options) noexcept {
  try {
    return capture_any(program, options);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::OutOfMemory, "host memory");
  } catch (...) {
    return Status(StatusCode::Invalid, "copying a user step's function threw an exception");
  }
}

Status target_available(Target target) noexcept {
  try {
    return target == Target::Host ? Status() : cuda_target_available();
  } catch (const std::bad_alloc&) {
    return {StatusCode::OutOfMemory, "host memory"};
  }
}

}  // namespace ai
