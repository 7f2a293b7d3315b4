#pragma once

#include <cstddef>
#include <string>

#include "ai/backend.hpp"
#include "ai/gemm.hpp"
#include "ai/program.hpp"

namespace ai::detail {

/// Everything that the best way to carry out `plan` depends on, apart from the machine, e.g.
/// "forward M=1 N=256 K=64 trans=-- bias=PerN act=ReLU alpha=1 beta=0 F32 A[1,64]/64@256
/// B[64,256]/256@256 bias[256]/1@4 Y[1,256]/256@256": each operand that is read or written with its
/// shape, stride (leading dimension of a matrix) and alignment (alignment_of), then "=A" where it
/// begins where an earlier one does, and "+=" behind a gradient that is added to. Equal for plans
/// that pose the same problem, wherever their operands lie, in any process. Printable ASCII. May
/// throw std::bad_alloc, as may what follows.
[[nodiscard]] std::string problem_key(const GemmPlan& plan);

/// The same of plans that are carried out as a whole: "run of 3 layers YYY: " for a run whose Ys
/// are all written ("-" for one that is not), then the keys of the plans.
[[nodiscard]] std::string problem_key(const PlanRun& run);

/// The same of the `task`-th task of such a plan.
[[nodiscard]] std::string task_key(const std::string& problem, std::size_t task);

/// What a task's key becomes where something is known of the task in one program alone, by the
/// program's context_of.
[[nodiscard]] std::string key_in(const std::string& task, const std::string& context);

/// Equal for programs that pose the same problems, with the same steps and copies of the caller's
/// between them, in one order.
[[nodiscard]] std::string context_of(const Program& program);

}  // namespace ai::detail
