#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "capture/tuning_cache.hpp"
#include "support/temporary_folder.hpp"

namespace tuning {

using ai::detail::StoredChoice;
using ai::detail::TuningCache;
using ai::detail::TuningMachine;
namespace fs = std::filesystem;

using Folder = TemporaryFolder;

inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  REQUIRE(file.good());
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

inline bool exists(const std::string& path) {
  return fs::exists(fs::symlink_status(path));
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

inline TuningMachine machine() {
  return {"NVIDIA H200", 132, "580.159.04, CUDA 13.0", "13.0", "cuBLASLt 13.1.0", "0.1.0"};
}

/// Another one for each `i`.
inline StoredChoice choice(int i = 0) {
  return {{"lt_fused/" + std::to_string(i), "lt 16384 " + std::string(128, 'a')},
          2.5 + i,
          "lt_matmul/1",
          3.25 + i,
          9,
          7,
          i % 2 == 0 ? 0.0 : 2.0};
}

inline TuningCache::Choices one(const std::string& problem, int i = 0) {
  return {{problem, choice(i)}};
}

/// Starts a process that ends with what `body` returns. No thread may run.
template <typename Body>
[[nodiscard]] pid_t start(const Body& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body());
  return child;
}

/// Waits for its end; -1 where a signal has ended it.
inline int exit_code(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Whether a store went well, or another had the lock all the time, as may be where writing is
/// slow.
inline bool may_be_busy(const ai::Status& status) {
  return status.ok() || contains(status.message(), "another process has held the lock");
}

/// Stores what was kept back.
inline bool flush(TuningCache& cache) {
  for (int tries = 0; tries < 50; ++tries) {
    if (cache.store(machine(), {}).ok()) return true;
  }
  return false;
}

}  // namespace tuning
