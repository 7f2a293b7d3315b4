#include "gil.hpp"

#include <unistd.h>

namespace ge_python {

bool python_is_ending() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

void stop_thread() noexcept {
  for (;;) pause();
}

}  // namespace ge_python
