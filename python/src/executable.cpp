#include "bindings.hpp"

namespace ge_python {
void bind_executable(nb::module_&) {}
}  // namespace ge_python
