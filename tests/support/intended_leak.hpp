#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define AI_TEST_LEAKS_ARE_FOUND
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define AI_TEST_LEAKS_ARE_FOUND
#endif
#ifdef AI_TEST_LEAKS_ARE_FOUND
#include <sanitizer/lsan_interface.h>
#endif

namespace support {

/// While one lives, what its thread allocates may be leaked: for tests of what the library never
/// frees on purpose, because something may still use it.
class IntendedLeak {
 public:
#ifdef AI_TEST_LEAKS_ARE_FOUND
  IntendedLeak() {
    __lsan_disable();
  }
  ~IntendedLeak() {
    __lsan_enable();
  }
#else
  IntendedLeak() {}  // not defaulted: an unused variable would warn
  ~IntendedLeak() {}
#endif
  IntendedLeak(const IntendedLeak&) = delete;
  IntendedLeak& operator=(const IntendedLeak&) = delete;
};

}  // namespace support
