#include "call.hpp"

namespace ge_python {
BoundCall<ai::GemmForward> forward_call(const ForwardArguments&, const ai::GemmAttrs&, Hold) { return {}; }
BoundCall<ai::GemmBackward> backward_call(const BackwardArguments&, const ai::GemmAttrs&, Hold) { return {}; }
void bind_attrs(nb::module_&) {}
}  // namespace ge_python
