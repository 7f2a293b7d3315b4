// What a forked process knows of itself.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/driver_streams.hpp"

namespace ai::cuda {
namespace {

/// Whether a child that is forked now knows that it is one.
bool child_knows() {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(is_forked() ? 1 : 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

TEST_CASE("B10: a process knows that it was forked from one that had looked up the driver") {
  Api none = {};
  (void)driver_streams(none);
  CHECK(child_knows());
  CHECK_FALSE(is_forked());
}

}  // namespace
}  // namespace ai::cuda
