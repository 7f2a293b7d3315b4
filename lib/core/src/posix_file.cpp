#include "core/posix_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include "core/text.hpp"

namespace ai {

Descriptor::Descriptor(const std::string& path, int flags, mode_t mode) noexcept {
  do {
    value_ = ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, mode);
  } while (value_ < 0 && errno == EINTR);
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

int Descriptor::close() noexcept {
  return ::close(release()) == 0 || errno == EINTR ? 0 : errno;
}

Status file_failure(std::string_view what, const std::string& path, std::string_view why) {
  return {StatusCode::Unsupported, text(what, " ", path, ": ", why)};
}

Status file_failure(std::string_view what, const std::string& path, int error) {
  return file_failure(what, path, std::generic_category().message(error));
}

int write_all(int descriptor, std::string_view contents) noexcept {
  while (!contents.empty()) {
    const auto written = ::write(descriptor, contents.data(), contents.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int read_all(int descriptor, std::string& contents) noexcept {
  std::size_t done = 0;
  while (done < contents.size()) {
    const auto got = ::read(descriptor, contents.data() + done, contents.size() - done);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    done += static_cast<std::size_t>(got);
  }
  contents.resize(done);
  return 0;
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, std::max<std::size_t>(slash, 1));
}

int make_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return 0;
  if (errno != ENOENT || folder == "." || folder == "/") return errno;
  if (const int error = make_folder(folder_of(folder)); error != 0) return error;
  return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

}  // namespace ai
