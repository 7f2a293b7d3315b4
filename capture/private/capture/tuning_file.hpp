#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ai/status.hpp"

namespace ai::detail {

/// What tells one state of a file from another.
struct FileStamp {
  int error = 0;  ///< errno of looking at it, or of reading it; ENOENT: there is none
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

/// The state of the file that `path` leads to.
[[nodiscard]] FileStamp stamp_of(const std::string& path) noexcept;

/// A file as it was read.
struct FileContents {
  FileStamp stamp = {};
  std::string text = {};
  std::string problem = {};  ///< why it could not be read, as what follows its name in a sentence
  [[nodiscard]] bool absent() const noexcept;
};

/// Reads a regular file of at most `most_bytes`; never waits for one that is none. May throw
/// std::bad_alloc, as may all below.
[[nodiscard]] FileContents read_file(const std::string& path, std::size_t most_bytes);

/// The path that is left when symbolic links at its end are followed, also to where nothing is.
[[nodiscard]] std::string follow_links(const std::string& path);

/// Makes the folders above `path` that are missing, for this user only.
[[nodiscard]] Status make_folders_above(const std::string& path);

/// Holds `path`.lock against other processes, and other FileLocks of this one, until it is
/// destroyed. That file stays: to remove it would let two in at once.
class FileLock {
 public:
  /// Tries for as long as `patience`. Unsupported: another holds it, or it cannot be had.
  [[nodiscard]] static Result<FileLock> take(const std::string& path,
                                             std::chrono::milliseconds patience);
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) noexcept : descriptor_(descriptor) {}
  int descriptor_;
};

/// Puts a file with this text in the place of `path` at once: whoever opens it sees the old one or
/// the new one. Needs the FileLock of `path`; leaves nothing else behind, also where it fails.
[[nodiscard]] Status replace_file(const std::string& path, std::string_view text);

}  // namespace ai::detail
