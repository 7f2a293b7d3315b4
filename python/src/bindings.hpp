#pragma once

#include <nanobind/nanobind.h>

namespace ge_python {

namespace nb = nanobind;

/// forward, backward, forward_ex, backward_ex, plan_cache, set_plan_cache_limit,
/// set_graph_limit, clear_plan_cache.
void bind_direct(nb::module_& module);
/// forward_numpy.
void bind_numpy(nb::module_& module);
/// Program.
void bind_program(nb::module_& module);
/// Tuning, TuningReport, TuningProgress, tuning_cache_path, set_tuning_cache_path.
void bind_tuning(nb::module_& module);
/// capture, target_available, Executable, Node, BoundOperand, Target.
void bind_executable(nb::module_& module);
/// What the package's own Python files use: _set_site_packages, _library_report.
void bind_libraries(nb::module_& module);

}  // namespace ge_python
