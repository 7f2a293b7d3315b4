// clang-format off
#include "build_id.hpp"  // NB_DOMAIN, which nanobind reads: before all others
// clang-format on

#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "call.hpp"
#include "status.hpp"
#include "tensor.hpp"

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);  // objects that live to the end of the process are no news
  module.attr("__version__") = GE_VERSION;
  module.attr("build_id") = GE_BUILD_ID;
  module.attr("with_cuda") = GE_PYTHON_WITH_CUDA != 0;
  ge_python::bind_status(module);
  ge_python::bind_tensor(module);
  ge_python::bind_attrs(module);
  ge_python::bind_direct(module);
  ge_python::bind_numpy(module);
  ge_python::bind_program(module);
  ge_python::bind_tuning(module);
  ge_python::bind_executable(module);
  ge_python::bind_libraries(module);
}
