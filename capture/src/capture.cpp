#include "ai/capture.hpp"

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "capture/blueprint.hpp"
#include "capture/choice.hpp"
#include "capture/copy_step.hpp"
#include "capture/guarded.hpp"
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

Result<Executable> capture_host(const Program& program) {
  detail::Workshop workshop{Target::Host, make_host_backend, detail::make_host_copy};
  const std::unique_ptr<Backend> backend = workshop.make_backend();
  Result<std::vector<detail::LoweredTask>> tasks =
      detail::lower(program, *backend, workshop.target, workshop.make_copy);
  if (!tasks) return tasks.status();
  Result<std::vector<detail::Choice>> choices = detail::take_first(*tasks);
  if (!choices) return choices.status();
  return detail::make_host_executable(detail::draw(program, std::move(workshop), *tasks, *choices));
}

#ifdef GE_WITH_CUDA
Result<Executable> capture_cuda(const Program& program, const CaptureOptions& options) {
  const int device = program.device_index();
  return detail::capture_with(
      cuda::runtime_api(), [device] { return kernels::make_cuda_backend(device); }, program,
      options, detail::tuner_settings(options));
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
  if (!(options.tuning_budget_s >= 0)) {
    return Status(StatusCode::Invalid, "tuning_budget_s is " +
                                           std::to_string(options.tuning_budget_s) +
                                           ", expected seconds, 0 or more");
  }
  Result<Target> target = resolve(program, options.target);
  if (!target) return target.status();
  return *target == Target::Host ? capture_host(program) : capture_cuda(program, options);
}

}  // namespace

Result<Executable> capture(const Program& program, const CaptureOptions& options) noexcept {
  return detail::guarded([&] { return capture_any(program, options); });
}

Status target_available(Target target) noexcept {
  return detail::guarded(
      [&] { return target == Target::Host ? Status() : cuda_target_available(); });
}

}  // namespace ai
