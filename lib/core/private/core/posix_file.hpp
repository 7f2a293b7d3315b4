#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "ai/status.hpp"

namespace ai {

/// A file descriptor that is closed, and not handed on to programs that this process starts.
class Descriptor {
 public:
  /// Of a call that gave it; negative: none.
  explicit Descriptor(int value) noexcept : value_(value) {}
  /// open(2); false where that failed, with the reason in errno.
  Descriptor(const std::string& path, int flags, mode_t mode = 0) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  explicit operator bool() const noexcept { return value_ >= 0; }
  [[nodiscard]] int get() const noexcept { return value_; }
  [[nodiscard]] int release() noexcept { return std::exchange(value_, -1); }
  /// Closes it now: 0 or errno.
  [[nodiscard]] int close() noexcept;

 private:
  int value_ = -1;
};

/// Unsupported: "<what> <path>: <why>".
[[nodiscard]] Status file_failure(std::string_view what, const std::string& path,
                                  std::string_view why);
/// The same with what the system says of `error`.
[[nodiscard]] Status file_failure(std::string_view what, const std::string& path, int error);

/// 0 or errno, as all below.
[[nodiscard]] int write_all(int descriptor, std::string_view contents) noexcept;
/// As many bytes as `contents` holds; fewer where the file ends, and `contents` is shortened then.
[[nodiscard]] int read_all(int descriptor, std::string& contents) noexcept;

/// What stands before the last slash: "." where there is none, "/" for what lies right there.
[[nodiscard]] std::string folder_of(const std::string& path);
/// Makes a folder, and those above it, for this user alone; what is there already stays as it is.
[[nodiscard]] int make_folder(const std::string& folder);

}  // namespace ai
