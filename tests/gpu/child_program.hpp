#pragma once

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

extern char** environ;

namespace gpu {

/// The program `name` beside this one.
inline std::string program_beside(const std::string& name) {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  REQUIRE(length > 0);
  const std::string self(path.data(), static_cast<std::size_t>(length));
  return self.substr(0, self.rfind('/') + 1) + name;
}

/// Runs it with the environment's `variable` as given (empty: unset). Returns what it printed and,
/// where it did not end with 0, how it ended; empty if all went well.
inline std::string run_beside(const std::string& name, std::vector<std::string> arguments,
                              const std::string& variable = "CUDA_MODULE_LOADING",
                              const std::string& value = {}) {
  arguments.insert(arguments.begin(), program_beside(name));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  std::string setting = variable + "=";
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, setting.c_str(), setting.size()) != 0) environment.push_back(*entry);
  }
  setting += value;
  if (!value.empty()) environment.push_back(setting.data());
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

}  // namespace gpu
