#pragma once

#include <nanobind/nanobind.h>

#include "ai/program.hpp"
#include "held.hpp"

namespace ge_python {

/// What Python knows as Program. Each method that adds an item changes nothing where it fails.
struct Program {
  ai::Program program;
  Held held;

  int traverse(visitproc visit, void* arg) const { return held.traverse(visit, arg); }
  void clear() {
    program = {};
    held = {};
  }
};

}  // namespace ge_python
