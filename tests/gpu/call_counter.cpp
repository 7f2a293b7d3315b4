// Definitions that stand before the C library's. The program is linked with -rdynamic, so that
// shared libraries that it loads later (the driver) are bound to them as well.
#include "gpu/call_counter.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <cstddef>

namespace {

// Plain zero-initialised thread-locals of the program itself: reading them allocates nothing.
thread_local bool counting = false;
thread_local long allocations = 0;
thread_local long locks = 0;

void count_allocation() noexcept {
  if (counting) ++allocations;
}
void count_lock() noexcept {
  if (counting) ++locks;
}

template <typename Function>
Function* next(const char* name, Function* /*type*/) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace ai::test {

void start_counting() noexcept {
  allocations = 0;
  locks = 0;
  counting = true;
}

CallCounts stop_counting() noexcept {
  counting = false;
  return {allocations, locks};
}

}  // namespace ai::test

extern "C" {

// dlsym itself may allocate, so the allocator is reached by glibc's second names for it.
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t bytes) noexcept {
  count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* data, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_realloc(data, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) noexcept {
  count_allocation();
  constexpr int kNoMemory = 12;  // ENOMEM
  *data = __libc_memalign(alignment, bytes);
  return *data == nullptr ? kNoMemory : 0;
}
void free(void* data) noexcept {
  count_allocation();
  __libc_free(data);
}

#define GE_COUNT_LOCK(name, type)                   \
  int name(type* lock) noexcept {                   \
    static auto* const real = next(#name, &::name); \
    count_lock();                                   \
    return real(lock);                              \
  }
GE_COUNT_LOCK(pthread_mutex_lock, pthread_mutex_t)
GE_COUNT_LOCK(pthread_mutex_trylock, pthread_mutex_t)
GE_COUNT_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
GE_COUNT_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
#undef GE_COUNT_LOCK

}  // extern "C"
