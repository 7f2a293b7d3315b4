#include "last_hold.hpp"

#include <new>
#include <utility>

namespace ge_python {
namespace {

/// Moved away and never destroyed.
template <typename T>
void leak(T& value) noexcept {
  (void)new (std::nothrow) T(std::move(value));
}

}  // namespace

void LastHold::take(Held held, Retired retired) noexcept {
  held_ = std::move(held);
  retired_ = std::move(retired);
}

LastHold::~LastHold() {
  if (held_.empty() && !retired_.any()) return;
  if (python_is_ending()) {
    leak(held_);
    leak(retired_);
    return;
  }
  const nb::gil_scoped_acquire locked;
  // What dies here may run Python code, which must not meet an error that is on its way.
  const nb::error_scope undisturbed;
  held_ = {};
  retired_ = Retired(-1);
}

bool python_is_ending() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

}  // namespace ge_python
