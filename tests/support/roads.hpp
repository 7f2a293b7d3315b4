#pragma once

#include <optional>

#include "ai/ai.hpp"
#include "cases.hpp"

/// The library's ways to carry out one call, each for both directions.
namespace support {

[[nodiscard]] inline ai::Result<ai::GemmPlan> plan(const ai::GemmForward& call) {
  return ai::plan_forward(call);
}
[[nodiscard]] inline ai::Result<ai::GemmPlan> plan(const ai::GemmBackward& call) {
  return ai::plan_backward(call);
}

/// Plans, adds, captures by `capture(program)`, launches once and waits.
template <typename Call, typename Capture>
[[nodiscard]] ai::Status launch_once(const Call& call, Capture&& capture) {
  const auto planned = plan(call);
  if (!planned.ok()) return planned.status();
  ai::Program program;
  AI_RETURN_IF_ERROR(program.add(*planned));
  ai::Result<ai::Executable> executable = capture(program);
  if (!executable.ok()) return executable.status();
  AI_RETURN_IF_ERROR(executable->launch());
  return executable->wait();
}

/// As an executable of the host target.
struct HostExecutable {
  template <typename Data>
  ai::Status operator()(const Data& data) const {
    return launch_once(data.call(), [](const ai::Program& program) {
      return ai::capture(program, {.target = ai::Target::Host});
    });
  }
};

/// Whether the direct path's form with the operands one by one can say the call.
[[nodiscard]] inline bool has_operand_form(const ai::GemmForward& call) {
  return !call.C || call.attrs.beta == 0.0F || call.C->data == call.Y.data;
}
[[nodiscard]] inline bool has_operand_form(const ai::GemmBackward& call) {
  const auto adds = [](const std::optional<ai::Gradient>& gradient) {
    return gradient && gradient->mode == ai::GradMode::Accumulate;
  };
  return !adds(call.gA) && !adds(call.gB) && !adds(call.gC) && !adds(call.gBias);
}

/// Enqueues by the direct path; `by_operands`: with the operands one by one, where that can be.
[[nodiscard]] inline ai::Status direct(const ai::GemmForward& call, ai::Stream stream,
                                       bool by_operands = false) {
  if (!by_operands || !has_operand_form(call)) return ai::gemm::forward(call, stream);
  return ai::gemm::forward(call.A, call.B, call.bias ? &*call.bias : nullptr, call.Y, call.attrs,
                           stream, call.Z ? &*call.Z : nullptr);
}
[[nodiscard]] inline ai::Status direct(const ai::GemmBackward& call, ai::Stream stream,
                                       bool by_operands = false) {
  if (!by_operands || !has_operand_form(call)) return ai::gemm::backward(call, stream);
  const auto given = [](const std::optional<ai::Gradient>& gradient) {
    return gradient ? &gradient->tensor : nullptr;
  };
  return ai::gemm::backward(call.A, call.B, call.C ? &*call.C : nullptr, call.gY,
                            call.Z ? &*call.Z : nullptr, given(call.gA), given(call.gB),
                            given(call.gC), given(call.gBias), call.attrs, stream);
}
/// Half of the cases take the form with the operands one by one; which ones has nothing to do with
/// what they are made of.
[[nodiscard]] inline bool takes_operand_form(const Case& c) {
  return (c.seed * 2654435761U >> 16) % 2 == 1;
}

}  // namespace support
