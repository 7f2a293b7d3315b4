#include "capture/tuning_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "ai/status.hpp"
#include "core/posix_file.hpp"
#include "core/text.hpp"

namespace ai::detail {
namespace {

constexpr int kMostLinks = 40;  // as many as the system follows

std::string reason(int error) {
  return std::generic_category().message(error);
}

FileStamp stamp(const struct stat& found) noexcept {
  return {.device = found.st_dev,
          .inode = found.st_ino,
          .bytes = found.st_size,
          // Of the inode: a change of the permissions is one, too.
          .changed_ns = std::int64_t{found.st_ctim.tv_sec} * 1'000'000'000 + found.st_ctim.tv_nsec};
}

/// What stat() or fstat() is to say of something that can be read; else why it cannot be.
std::string complaint(const struct stat& found, std::size_t most_bytes) {
  if (S_ISDIR(found.st_mode)) return "is a folder";
  if (!S_ISREG(found.st_mode)) return "is no regular file";
  if (static_cast<std::uint64_t>(found.st_size) > most_bytes) {
    return text("has ", std::int64_t{found.st_size}, " bytes, more than the ",
                static_cast<std::int64_t>(most_bytes), " that are read");
  }
  return {};
}

bool has_nul(const std::string& path) noexcept {
  return path.find('\0') != std::string::npos;
}

}  // namespace

bool FileContents::absent() const noexcept {
  return stamp.error == ENOENT;
}

FileStamp stamp_of(const std::string& path) noexcept {
  if (has_nul(path)) return {.error = EINVAL};
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {.error = errno};
  return stamp(found);
}

FileContents read_file(const std::string& path, std::size_t most_bytes) {
  FileContents file;
  struct stat found {};
  file.stamp = stamp_of(path);
  if (file.absent()) return file;
  const auto unreadable = [&](int error) {
    file.stamp.error = error;  // no state to stay with: it may pass without a change of the file
    file.problem = "cannot be read: " + reason(error);
    return file;
  };
  if (file.stamp.error != 0) return unreadable(file.stamp.error);
  // Looked at before it is opened, which for a device may do something, and again for what it was
  // opened as. A FIFO is not waited for.
  if (::stat(path.c_str(), &found) != 0) return unreadable(errno);
  file.problem = complaint(found, most_bytes);
  if (!file.problem.empty()) return file;
  const Descriptor opened(path, O_RDONLY | O_NONBLOCK);
  if (!opened || ::fstat(opened.get(), &found) != 0) return unreadable(errno);
  file.stamp = stamp(found);
  file.problem = complaint(found, most_bytes);
  if (!file.problem.empty()) return file;

  file.text.resize(static_cast<std::size_t>(found.st_size));
  if (const int error = read_all(opened.get(), file.text); error != 0) {
    file.text.clear();
    return unreadable(error);
  }
  return file;
}

std::string follow_links(const std::string& path) {
  std::string target = path;
  std::array<char, PATH_MAX> name{};
  for (int i = 0; i < kMostLinks; ++i) {
    const auto length = ::readlink(target.c_str(), name.data(), name.size());
    if (length <= 0) break;
    const std::string next(name.data(), static_cast<std::size_t>(length));
    target = next.starts_with('/') ? next : folder_of(target) + '/' + next;
  }
  return target;
}

Status make_folders_above(const std::string& path) {
  const auto folder = folder_of(path);
  const int error = make_folder(folder);
  return error == 0 ? Status() : file_failure("cannot make the folder", folder, error);
}

Result<FileLock> FileLock::take(const std::string& path, std::chrono::milliseconds patience) {
  const std::string name = path + ".lock";
  constexpr int kFlags = O_CREAT | O_NOFOLLOW | O_NONBLOCK;
  Descriptor opened(name, O_RDWR | kFlags, 0666);  // NFS locks only what is open for writing
  std::optional<Descriptor> of_another_user;
  if (!opened && errno == EACCES) of_another_user.emplace(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  Descriptor& lock = of_another_user ? *of_another_user : opened;
  if (!lock) return file_failure("cannot open", name, errno);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return file_failure("cannot lock", name, errno);
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(StatusCode::Unsupported,
                    text("another process has held the lock ", name, " for ",
                         static_cast<std::int64_t>(patience.count()), " ms"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return FileLock(lock.release());
}

FileLock::~FileLock() {
  if (descriptor_ < 0) return;
  ::flock(descriptor_, LOCK_UN);  // a forked child may have the descriptor too
  ::close(descriptor_);
}

Status replace_file(const std::string& path, std::string_view text) {
  const std::string fresh = path + ".new";
  if (::unlink(fresh.c_str()) != 0 && errno != ENOENT) {  // one that a killed process has left
    return file_failure("cannot remove", fresh, errno);
  }
  const Descriptor opened(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  if (!opened) return file_failure("cannot make", fresh, errno);
  struct stat old {};
  int error = 0;
  if (::stat(path.c_str(), &old) == 0 && ::fchmod(opened.get(), old.st_mode & 0777) != 0) {
    error = errno;
  }
  if (error == 0) error = write_all(opened.get(), text);
  if (error == 0 && ::fsync(opened.get()) != 0) error = errno;
  if (error == 0 && std::rename(fresh.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(fresh.c_str());
  return file_failure("cannot write", fresh, error);
}

}  // namespace ai::detail
