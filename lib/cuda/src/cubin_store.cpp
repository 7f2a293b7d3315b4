#include "cuda/cubin_store.hpp"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "core/posix_file.hpp"
#include "core/text.hpp"

namespace ai::cuda {
namespace {

constexpr std::string_view kMagic = "GECUBIN1";  // the last letter is the format
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

/// FNV-1a, 128 bits (Fowler, Noll, Vo): against accidents, not against an enemy.
class Hash {
 public:
  void add(std::string_view bytes) noexcept {
    for (const char c : bytes) {
      value_ ^= static_cast<unsigned char>(c);
      value_ *= kPrime;
    }
  }
  void add(std::uint64_t number) noexcept {
    std::array<char, 8> bytes{};
    std::memcpy(bytes.data(), &number, bytes.size());
    add({bytes.data(), bytes.size()});
  }
  /// A text that what follows does not run into.
  void add_field(std::string_view text) noexcept {
    add(static_cast<std::uint64_t>(text.size()));
    add(text);
  }
  [[nodiscard]] std::uint64_t high() const noexcept {
    return static_cast<std::uint64_t>(value_ >> 64);
  }
  [[nodiscard]] std::uint64_t low() const noexcept { return static_cast<std::uint64_t>(value_); }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr Wide kPrime = (Wide{1} << 88) + 0x13B;
  Wide value_ = (Wide{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
};

/// The beginning of a file; the image and the log follow.
struct Header {
  std::array<char, 8> magic = {};
  std::uint64_t nvrtc_version = 0;
  std::uint64_t image_bytes = 0;
  std::uint64_t log_bytes = 0;
  std::uint64_t high = 0;  // of the hash over everything else and the key
  std::uint64_t low = 0;
};
static_assert(sizeof(Header) == 48);

Hash hash_of(const Header& header, std::string_view key, std::string_view rest) noexcept {
  Hash hash;
  hash.add_field(key);
  hash.add(header.nvrtc_version);
  hash.add(header.image_bytes);
  hash.add(header.log_bytes);
  hash.add(rest);
  return hash;
}

/// Why code from there is not to be run; empty where it may be.
std::string_view mistrust(const struct stat& found) noexcept {
  if (found.st_uid != ::geteuid()) return "it is another user's";
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write to it";
  return {};
}

/// Whether the folder may be used.
Status trust(const Descriptor& folder, const std::string& path) {
  struct stat found {};
  if (::fstat(folder.get(), &found) != 0) return file_failure("cannot look at", path, errno);
  const std::string_view reason = mistrust(found);
  return reason.empty() ? Status() : file_failure("left alone, the folder", path, reason);
}

Result<std::string> contents_of(const Descriptor& file, const std::string& path) {
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return file_failure("cannot look at", path, errno);
  if (!S_ISREG(found.st_mode)) return file_failure("left alone,", path, "it is no regular file");
  if (const auto why = mistrust(found); !why.empty()) return file_failure("left alone,", path, why);
  if (static_cast<std::uint64_t>(found.st_size) > kMostBytes) {
    return file_failure("left alone,", path, "it is too large");
  }
  std::string contents(static_cast<std::size_t>(found.st_size), '\0');
  const int error = read_all(file.get(), contents);
  if (error != 0) return file_failure("cannot read", path, error);
  return contents;
}

std::optional<Cubin> parsed(std::string_view contents, std::string_view key) {
  Header header;
  if (contents.size() < sizeof header) return {};
  std::memcpy(&header, contents.data(), sizeof header);
  const std::string_view rest = contents.substr(sizeof header);
  if (std::string_view(header.magic.data(), header.magic.size()) != kMagic) return {};
  if (header.image_bytes > rest.size() || header.log_bytes != rest.size() - header.image_bytes) {
    return {};
  }
  const Hash hash = hash_of(header, key, rest);
  if (hash.high() != header.high || hash.low() != header.low) return {};
  Cubin cubin;
  cubin.image = rest.substr(0, header.image_bytes);
  cubin.log = rest.substr(header.image_bytes);
  cubin.nvrtc_version = static_cast<int>(header.nvrtc_version);
  return cubin;
}

std::string contents_for(const std::string& key, const Cubin& cubin) {
  const std::string rest = cubin.image + cubin.log;
  Header header;
  kMagic.copy(header.magic.data(), header.magic.size());
  header.nvrtc_version = static_cast<std::uint64_t>(cubin.nvrtc_version);
  header.image_bytes = cubin.image.size();
  header.log_bytes = cubin.log.size();
  const Hash hash = hash_of(header, key, rest);
  header.high = hash.high();
  header.low = hash.low();
  std::string contents(sizeof header, '\0');
  std::memcpy(contents.data(), &header, sizeof header);
  return contents + rest;
}

std::string temporary_name(const std::string& key) {
  static std::atomic<unsigned> next{0};
  return text(".", key, ".", std::int64_t{::getpid()}, ".", std::int64_t{next++}, ".tmp");
}

CubinStore::Found find_in(const std::string& folder, const std::string& key) {
  const Descriptor opened(folder, O_RDONLY | O_DIRECTORY);
  if (!opened && errno == ENOENT) return {};
  if (!opened) return {.problem = file_failure("cannot open the folder", folder, errno)};
  const std::string name = key + ".cubin";
  const std::string path = folder + "/" + name;
  const Descriptor file(
      ::openat(opened.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return {};
  if (!file) return {.problem = file_failure("cannot open", path, errno)};
  if (Status trusted = trust(opened, folder); !trusted.ok()) return {.problem = std::move(trusted)};
  const Result<std::string> contents = contents_of(file, path);
  if (!contents) return {.problem = contents.status()};
  CubinStore::Found found{.cubin = parsed(*contents, key)};
  if (!found.cubin)
    found.problem = file_failure("left alone,", path, "it is damaged, or no such file");
  return found;
}

Status keep_in(const std::string& folder, const std::string& key, const Cubin& cubin) {
  const std::string contents = contents_for(key, cubin);
  if (contents.size() > kMostBytes) return file_failure("not kept in", folder, "it is too large");
  if (const int error = make_folder(folder); error != 0) {
    return file_failure("cannot make the folder", folder, error);
  }
  const Descriptor opened(folder, O_RDONLY | O_DIRECTORY);
  if (!opened) return file_failure("cannot open the folder", folder, errno);
  AI_RETURN_IF_ERROR(trust(opened, folder));
  const std::string name = temporary_name(key);
  Descriptor file(
      ::openat(opened.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return file_failure("cannot make a file in", folder, errno);
  int error = write_all(file.get(), contents);
  if (const int closed = file.close(); error == 0) error = closed;
  const std::string final_name = key + ".cubin";
  if (error == 0 && ::renameat(opened.get(), name.c_str(), opened.get(), final_name.c_str()) != 0) {
    error = errno;
  }
  if (error == 0) return {};
  (void)::unlinkat(opened.get(), name.c_str(), 0);
  return file_failure("cannot write to", folder, error);
}

Status out_of_memory() noexcept {
  return {StatusCode::OutOfMemory, "host memory ran out over a store of cubins"};
}

}  // namespace

std::string cubin_key(const CompileRequest& request) {
  Hash hash;
  hash.add(std::uint64_t{CUDART_VERSION});
  hash.add_field(architecture_option(request));
  hash.add_field(request.name);
  hash.add(static_cast<std::uint64_t>(request.headers.size()));
  for (const CompileRequest::Header& header : request.headers) {
    hash.add_field(header.name);
    hash.add_field(header.text);
  }
  hash.add(static_cast<std::uint64_t>(request.options.size()));
  for (const std::string& option : request.options) hash.add_field(option);
  hash.add_field(request.source);
  std::array<char, 33> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high()),
                static_cast<unsigned long long>(hash.low()));
  return digits.data();
}

CubinStore::Found CubinStore::find(const std::string& key) const noexcept {
  if (folder_.empty()) return {};
  try {
    return find_in(folder_, key);
  } catch (const std::bad_alloc&) {
    return {.problem = out_of_memory()};
  }
}

Status CubinStore::keep(const std::string& key, const Cubin& cubin) const noexcept {
  if (folder_.empty()) return {};
  try {
    return keep_in(folder_, key, cubin);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace ai::cuda
