#include "last_hold.hpp"

#include <new>
#include <utility>

#include "gil.hpp"

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
  const WithGil locked;
  // What dies here may run Python code, which must not meet an error that is on its way.
  const nb::error_scope undisturbed;
  held_ = {};
  retired_ = Retired(-1);
}

}  // namespace ge_python
