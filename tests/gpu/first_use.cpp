// The library as the first to use the GPU in a process: each case is a process of its own, which
// has never loaded a kernel, made a handle or allocated anything but operands.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "ai/gemm.hpp"

extern char** environ;

namespace {

/// The program beside this one.
std::string first_use_program() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  REQUIRE(length > 0);
  const std::string self(path.data(), static_cast<std::size_t>(length));
  return self.substr(0, self.rfind('/') + 1) + "first_use_program";
}

/// Runs it with CUDA_MODULE_LOADING as given (empty: unset). Returns what it printed and, where it
/// did not end with 0, how it ended; empty if all went well.
std::string run(std::vector<std::string> arguments, const std::string& loading) {
  arguments.insert(arguments.begin(), first_use_program());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  constexpr const char* kVariable = "CUDA_MODULE_LOADING=";
  std::string setting = kVariable + loading;
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, kVariable, std::strlen(kVariable)) != 0) environment.push_back(*entry);
  }
  if (!loading.empty()) environment.push_back(setting.data());
  environment.push_back(nullptr);

  int ends[2] = {};
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  REQUIRE(posix_spawn_file_actions_init(&actions) == 0);
  REQUIRE(posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0);
  REQUIRE(posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO) == 0);
  pid_t child = 0;
  const int spawned =
      posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environment.data());
  (void)posix_spawn_file_actions_destroy(&actions);
  (void)close(ends[1]);
  std::string output;
  std::array<char, 1024> piece{};
  for (ssize_t got = 0; (got = read(ends[0], piece.data(), piece.size())) > 0;) {
    output.append(piece.data(), static_cast<std::size_t>(got));
  }
  (void)close(ends[0]);
  if (spawned != 0) return argv[0] + std::string(" cannot be run: ") + std::strerror(spawned);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  return output + (WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                                     : "signal " + std::to_string(WTERMSIG(status)));
}

struct FirstCall {
  const char* direction;
  ai::ActKind act;
  ai::BiasKind bias;
};

std::string run(const std::string& road, const FirstCall& call, const std::string& loading = {},
                const std::vector<std::string>& then = {}) {
  std::vector<std::string> arguments = {road, call.direction,
                                        std::to_string(static_cast<int>(call.act)),
                                        std::to_string(static_cast<int>(call.bias))};
  arguments.insert(arguments.end(), then.begin(), then.end());
  return run(arguments, loading);
}

constexpr FirstCall kPlain{"forward", ai::ActKind::None, ai::BiasKind::None};
constexpr FirstCall kGradient{"backward", ai::ActKind::SiLU, ai::BiasKind::PerN};

TEST_CASE("A1: planning and capturing 32x32x32 is the first GPU work of a process") {
  CHECK(run("capture", kPlain) == "");
}

TEST_CASE("A1: a direct call is the first GPU work of a process") {
  CHECK(run("direct", kPlain) == "");
  CHECK(run("direct", kGradient) == "");
}

TEST_CASE("A1: a direct call inside the caller's capture is the first GPU work of a process") {
  for (const char* mode : {"global", "thread-local", "relaxed"}) {
    CAPTURE(mode);
    CHECK(run(mode, kPlain) == "");
  }
  CHECK(run("global", kGradient) == "");
}

TEST_CASE("A8: whatever is captured first, its kernels are loaded before, lazily or eagerly") {
  constexpr FirstCall kFirst[] = {
      {"forward", ai::ActKind::GELU, ai::BiasKind::PerM},
      {"forward", ai::ActKind::ReLU, ai::BiasKind::PerN},
      {"backward", ai::ActKind::None, ai::BiasKind::Scalar},  // CUB
      {"backward", ai::ActKind::Tanh, ai::BiasKind::PerM},
  };
  for (const FirstCall& call : kFirst) {
    CAPTURE(call.direction);
    CAPTURE(ai::to_string(call.act));
    CHECK(run("capture", call, "LAZY") == "");
  }
  CHECK(run("capture", kGradient, "EAGER") == "");
}

TEST_CASE("A8: every activation, bias and direction in a process that loads kernels lazily") {
  CHECK(run("capture", kGradient, "LAZY", {"then-all"}) == "");
  CHECK(run("direct", kGradient, "LAZY", {"then-all"}) == "");
  CHECK(run("global", kGradient, "LAZY", {"then-all"}) == "");
}

TEST_CASE("A8: every activation, bias and direction in a process that loads kernels eagerly") {
  CHECK(run("capture", kPlain, "EAGER", {"then-all"}) == "");
}

TEST_CASE("A8: replays and known direct calls end beside a kernel that does not") {
  CHECK(run("capture", kPlain, "LAZY", {"then-beside"}) == "");
  for (const char* road : {"capture", "direct", "thread-local"}) {
    CAPTURE(road);
    CHECK(run(road, kGradient, "LAZY", {"then-beside"}) == "");
  }
}

TEST_CASE(
    "B10: a process that has reset the device ends quietly, with direct calls that are graphs") {
  CHECK(run("direct", kPlain, "LAZY", {"then-reset"}) == "");
  CHECK(run("direct", kGradient, "LAZY", {"then-reset"}) == "");
}

}  // namespace
