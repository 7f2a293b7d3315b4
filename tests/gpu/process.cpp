// The library across fork and at the end of a process: each case is a process of its own.
#include <doctest/doctest.h>

#include "child_program.hpp"

namespace {

TEST_CASE("B10: after a fork before the first use child and parent both work") {
  CHECK(gpu::run_beside("process_program", {"fork-before-use"}) == "");
}

TEST_CASE("B10: after a fork later each call of the child is an error, at once; the parent works") {
  CHECK(gpu::run_beside("process_program", {"fork-after-use"}) == "");
}

TEST_CASE("B10: executables and direct calls of static lifetime end quietly with the process") {
  for (const char* how : {"idle", "waited", "running", "host-function"}) {
    CAPTURE(how);
    CHECK(gpu::run_beside("process_program", {"static", how}) == "");
  }
}

}  // namespace
