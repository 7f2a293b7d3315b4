#include "bindings.hpp"

namespace ge_python {
void bind_numpy(nb::module_&) {}
}  // namespace ge_python
