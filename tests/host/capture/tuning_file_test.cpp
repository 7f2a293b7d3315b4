#include "capture/tuning_file.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "tuning_support.hpp"

namespace {

using ai::StatusCode;
using namespace tuning;

unsigned mode_of(const std::string& path) {
  return static_cast<unsigned>(fs::status(path).permissions());
}

const std::string kNewer = R"({"format": "graph_executor tuning", "version": 2, "entries": []})";

TEST_CASE("a damaged file is reported once, ignored, and replaced by the next store") {
  const Folder folder;
  const auto path = folder / "t";
  write_text(path, R"({"format": "graph_executor tuning", "version": 1, "mach)");
  TuningCache cache(path);
  auto said = cache.refresh();
  CHECK(said.code() == StatusCode::Invalid);
  CHECK_MESSAGE(contains(said.message(), "the tuning file " + path + " is damaged"),
                said.message());
  CHECK(cache.refresh().ok());
  CHECK_FALSE(cache.find(machine(), "a"));
  CHECK(cache.store(machine(), one("a")).ok());
  TuningCache next(path);
  CHECK(next.refresh().ok());
  CHECK(next.find(machine(), "a") == choice());

  write_text(path, "{\"format\"");  // another state: said again, here by store()
  said = cache.store(machine(), one("b"));
  CHECK_MESSAGE(contains(said.message(), "is damaged"), said.message());
  CHECK(next.refresh().ok());
  CHECK(next.find(machine(), "b") == choice());
  CHECK_FALSE(next.find(machine(), "a"));
}

TEST_CASE("a file of an older format is reported and replaced") {
  const Folder folder;
  write_text(folder / "t", R"({"format": "graph_executor tuning", "version": 0, "machines": []})");
  TuningCache cache(folder / "t");
  const auto said = cache.refresh();
  CHECK(said.code() == StatusCode::Unsupported);
  CHECK_MESSAGE(contains(said.message(), "older than 1"), said.message());
  CHECK(cache.store(machine(), one("a")).ok());
  CHECK(contains(read_text(folder / "t"), "\"version\": 1"));
}

TEST_CASE("what is no tuning file, or of a newer format, is reported once and never written to") {
  for (const std::string& text : {kNewer, std::string("{\"mine\": 1}"),
                                  std::string("\x7f"
                                              "ELF\0\1",
                                              6)}) {
    CAPTURE(text);
    const Folder folder;
    const auto path = folder / "t";
    write_text(path, text);
    TuningCache cache(path);
    const auto said = cache.refresh();
    CHECK_FALSE(said.ok());
    CHECK_MESSAGE(contains(said.message(), "; nothing is stored in it"), said.message());
    CHECK(cache.refresh().ok());
    CHECK(cache.store(machine(), one("a")).ok());
    CHECK(cache.find(machine(), "a") == choice());  // for this process
    CHECK(read_text(path) == text);
    CHECK_FALSE(exists(path + ".lock"));

    TuningCache unread(path);  // store() comes first
    CHECK_FALSE(unread.store(machine(), one("b")).ok());
    CHECK(unread.store(machine(), one("b")).ok());
    CHECK(read_text(path) == text);

    fs::remove(path);  // what was kept goes into the next file
    CHECK(cache.refresh().ok());
    CHECK(cache.find(machine(), "a") == choice());
    CHECK(cache.store(machine(), one("c")).ok());
    REQUIRE(unread.refresh().ok());
    CHECK(unread.find(machine(), "a") == choice());
  }
}

TEST_CASE("what is no regular file is reported at once, and stays") {
  const Folder folder;
  const auto directory = folder / "directory";
  fs::create_directory(directory);
  const auto fifo = folder / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const auto loop = folder / "loop";
  fs::create_symlink("loop", loop);
  const auto large = folder / "large";
  write_text(large, "{");
  fs::resize_file(large, (std::uintmax_t{256} << 20) + 1);
  const auto below = folder / "large/t";
  const struct {
    std::string path, says;
  } kCases[]{{directory, "is a folder"},
             {fifo, "is no regular file"},
             {"/dev/null", "is no regular file"},
             {"/dev/zero", "is no regular file"},
             {loop, "cannot be read"},
             {large, "has 268435457 bytes, more than the 268435456 that are read"},
             {below, "cannot be read"},
             {folder / std::string(300, 'x'), "cannot be read"},
             {std::string("a\0b", 3), "cannot be read"}};
  for (const auto& each : kCases) {
    CAPTURE(each.path);
    TuningCache cache(each.path);
    const auto said = cache.refresh();
    CHECK(said.code() == StatusCode::Unsupported);
    CHECK_MESSAGE(contains(said.message(), each.says), said.message());
    CHECK(cache.refresh().ok());
    CHECK(cache.store(machine(), one("a")).ok());
    CHECK(cache.find(machine(), "a") == choice());
  }
  CHECK(fs::is_directory(directory));
  CHECK(fs::is_fifo(fifo));
  CHECK(fs::is_symlink(loop));
  CHECK(fs::file_size(large) == (std::uintmax_t{256} << 20) + 1);
}

TEST_CASE("folders that are missing are made, for the user alone") {
  const Folder folder;
  const auto path = folder / "one/two/tuning.json";
  TuningCache cache(path);
  CHECK(cache.refresh().ok());
  CHECK_FALSE(exists(folder / "one"));
  REQUIRE(cache.store(machine(), one("a")).ok());
  CHECK(exists(path));
  CHECK(mode_of(folder / "one") == 0700);
  CHECK(mode_of(folder / "one/two") == 0700);
}

TEST_CASE("a folder that cannot be made, and one that cannot be written to, are reported") {
  for (const std::string& path : {std::string("/proc/graph_executor/t"), std::string("/proc/t")}) {
    CAPTURE(path);
    TuningCache cache(path);
    CHECK(cache.refresh().ok());
    for (int i = 0; i < 2; ++i) {
      const auto said = cache.store(machine(), one("a"));
      CHECK(said.code() == StatusCode::Unsupported);
      CHECK_MESSAGE(
          contains(said.message(), "the tuning file " + path + " was not written: cannot"),
          said.message());
    }
    CHECK(cache.find(machine(), "a") == choice());
    CHECK(cache.refresh().ok());
    CHECK(cache.find(machine(), "a") == choice());
  }
}

TEST_CASE("a user without the rights reads nothing and changes nothing") {
  const Folder folder;
  fs::permissions(folder / "", fs::perms(0755));
  fs::create_directory(folder / "mine");
  const auto path = folder / "mine/t";
  TuningCache cache(path);
  REQUIRE(cache.store(machine(), one("a")).ok());
  fs::permissions(path, fs::perms(0000));
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", fs::perms(0555));
  // Root may do anything: as root, it is nobody who tries.
  const int code = exit_code(start([&] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 77;
    TuningCache unreadable(path);
    const auto said = unreadable.refresh();
    if (said.code() != StatusCode::Unsupported || !contains(said.message(), "cannot be read"))
      return 1;
    if (!unreadable.refresh().ok() || !unreadable.store(machine(), one("b")).ok()) return 2;
    if (unreadable.find(machine(), "b") != choice()) return 3;
    TuningCache closed(folder / "closed/t");
    if (closed.store(machine(), one("b")).code() != StatusCode::Unsupported) return 4;
    return closed.find(machine(), "b") == choice() ? 0 : 5;
  }));
  fs::permissions(path, fs::perms(0600));
  fs::permissions(folder / "closed", fs::perms(0755));
  if (code == 77) {
    MESSAGE("not tried: root that cannot become nobody");
    return;
  }
  CHECK(code == 0);
  CHECK_FALSE(contains(read_text(path), "\"b\""));
  CHECK(fs::is_empty(folder / "closed"));
}

TEST_CASE("a file that cannot be read for a moment is read again, though it has not changed") {
  const Folder folder;
  const auto path = folder / "t";
  TuningCache cache(path);
  REQUIRE(cache.store(machine(), one("a")).ok());
  const int code = exit_code(start([&] {  // as where all descriptors are in use
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    const rlimit none{0, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 2;
    TuningCache other(path);
    if (!contains(other.refresh().message(), "cannot be read")) return 3;
    if (!other.refresh().ok() || other.find(machine(), "a")) return 4;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 5;
    if (!other.refresh().ok() || other.find(machine(), "a") != choice()) return 6;
    return other.store(machine(), one("b", 1)).ok() ? 0 : 7;
  }));
  CHECK(code == 0);
  REQUIRE(cache.refresh().ok());
  CHECK(cache.find(machine(), "b") == choice(1));
}

TEST_CASE(
    "a file that may not grow as large as it must stays as it was, and nothing is left behind") {
  const Folder folder;
  const auto path = folder / "t";
  TuningCache cache(path);
  REQUIRE(cache.store(machine(), one("a")).ok());
  const auto before = read_text(path);
  const int code = exit_code(start([&] {  // as on a full disk
    const rlimit limit{before.size() + 10, before.size() + 10};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0 || std::signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
      return 1;
    TuningCache full(path);
    const auto said = full.store(machine(), one("b"));
    if (said.ok() || !contains(said.message(), "was not written")) return 2;
    return full.find(machine(), "b") == choice() && full.find(machine(), "a") == choice() ? 0 : 3;
  }));
  CHECK(code == 0);
  CHECK(read_text(path) == before);
  CHECK_FALSE(exists(path + ".new"));
}

TEST_CASE("a link stays, and the file that it leads to is replaced") {
  const Folder folder;
  fs::create_directory(folder / "there");
  fs::create_symlink("there/second", folder / "first");
  fs::create_symlink("target", folder / "there/second");  // relative to its own folder
  TuningCache cache(folder / "first");
  for (int i = 0; i < 2; ++i) {  // first it leads nowhere
    REQUIRE(cache.store(machine(), one("a", i)).ok());
    CHECK(fs::is_symlink(folder / "first"));
    CHECK(fs::is_symlink(folder / "there/second"));
    CHECK(fs::is_regular_file(fs::symlink_status(folder / "there/target")));
  }
  CHECK(exists(folder / "there/target.lock"));  // the same lock by every name
  CHECK_FALSE(exists(folder / "first.lock"));
  TuningCache direct(folder / "there/target");
  REQUIRE(direct.refresh().ok());
  CHECK(direct.find(machine(), "a") == choice(1));
}

TEST_CASE("a file keeps its permissions") {
  const Folder folder;
  TuningCache cache(folder / "t");
  REQUIRE(cache.store(machine(), one("a")).ok());
  for (const unsigned mode : {0600U, 0640U, 0664U}) {
    fs::permissions(folder / "t", fs::perms(mode));
    REQUIRE(cache.store(machine(), one("b")).ok());
    CHECK(mode_of(folder / "t") == mode);
  }
}

TEST_CASE("what a killed process has left does not matter; a folder in its place is reported") {
  const Folder folder;
  const auto path = folder / "t";
  write_text(path + ".new", "half of a fi");
  TuningCache cache(path);
  REQUIRE(cache.store(machine(), one("a")).ok());
  CHECK_FALSE(exists(path + ".new"));
  write_text(folder / "precious", "precious");
  fs::create_symlink("precious", path + ".new");
  REQUIRE(cache.store(machine(), one("b")).ok());
  CHECK(read_text(folder / "precious") == "precious");
  CHECK_FALSE(fs::is_symlink(path));
  fs::create_directory(path + ".new");
  CHECK(contains(cache.store(machine(), one("c")).message(), "was not written: cannot remove"));
  fs::remove(path + ".new");
  REQUIRE(fs::remove(path + ".lock"));
  fs::create_directory(path + ".lock");
  CHECK(contains(cache.store(machine(), one("c")).message(), "was not written: cannot open"));
}

}  // namespace
