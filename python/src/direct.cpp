#include "bindings.hpp"

namespace ge_python {
void bind_direct(nb::module_&) {}
}  // namespace ge_python
