#include "bindings.hpp"

namespace ge_python {
void bind_program(nb::module_&) {}
}  // namespace ge_python
