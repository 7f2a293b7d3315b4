#pragma once

#include <new>

#include "ai/status.hpp"

namespace ai::detail {

/// A Status where memory may have run out: then without its text.
[[nodiscard]] inline Status plain_status(StatusCode code, const char* message) noexcept try {
  return {code, message};
} catch (const std::bad_alloc&) {
  return {code, {}};
}

/// `call`, in which memory may run out and users' functions (of steps, handlers) be copied, with
/// what it throws as a Status.
template <typename Call>
[[nodiscard]] auto guarded(const Call& call) noexcept -> decltype(call()) try {
  return call();
} catch (const std::bad_alloc&) {
  return plain_status(StatusCode::OutOfMemory, "host memory");
} catch (...) {
  return plain_status(
      StatusCode::Invalid,
      "copying a function of the caller's (of a step or a handler) threw an exception");
}

}  // namespace ai::detail
