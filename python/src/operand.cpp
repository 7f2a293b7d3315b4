#include "operand.hpp"

namespace ge_python {
Operand matrix_operand(nb::handle, const char*, Use, Hold, bool) { return {}; }
Operand bias_operand(nb::handle, const char*, Use, Hold) { return {}; }
Operand step_operand(nb::handle, const char*, Use, Hold) { return {}; }
}  // namespace ge_python
