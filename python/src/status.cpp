#include "status.hpp"

namespace ge_python {
void check(const ai::Status& status) {
  if (!status.ok()) raise(status.code(), status.message());
}
void raise(ai::StatusCode, std::string message) { throw nb::value_error(message.c_str()); }
void bind_status(nb::module_&) {}
}  // namespace ge_python
