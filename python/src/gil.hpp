#pragma once

#include <nanobind/nanobind.h>

namespace ge_python {

/// Whether the interpreter is going or gone: then no other thread may ask for the GIL.
[[nodiscard]] bool python_is_ending() noexcept;

/// Never returns: this thread stops, and its stack stays as it is, until the process is over.
[[noreturn]] void stop_thread() noexcept;

/// Gives the GIL up for a scope. Where Python ends meanwhile it would unwind this (daemon) thread's
/// stack from within PyEval_RestoreThread, through frames of C++ that must not be left so; the
/// thread stops instead, as it does from Python 3.14 on.
class WithoutGil {
 public:
  WithoutGil() noexcept : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      stop_thread();
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// Holds the GIL for a scope, on any thread; likewise.
class WithGil {
 public:
  WithGil() noexcept : state_(ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  static PyGILState_STATE ensure() noexcept {
    try {
      return PyGILState_Ensure();
    } catch (...) {
      stop_thread();
    }
  }
  PyGILState_STATE state_;
};

}  // namespace ge_python
