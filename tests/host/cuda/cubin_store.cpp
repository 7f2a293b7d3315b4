#include "cuda/cubin_store.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.hpp"

using namespace ai::cuda;
namespace fs = std::filesystem;

namespace {

const std::string kKey(32, 'a');

Cubin cubin(std::string image, std::string log = "as told") {
  Cubin made;
  made.image = std::move(image);
  made.log = std::move(log);
  made.nvrtc_version = 13010;
  made.compile_s = 0.5;
  return made;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}
void write(const fs::path& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

std::string problem(const CubinStore& store) {
  const CubinStore::Found found = store.find(kKey);
  CHECK(!found.cubin);
  return found.problem.message();
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("what was kept is found, also by another store, byte for byte") {
  const TemporaryFolder folder;
  const fs::path deep = folder.path / "not" / "there yet";
  const CubinStore store(deep.string());
  CHECK(!store.find(kKey).cubin);
  CHECK(store.find(kKey).problem.ok());
  std::string image(
      "\x7f"
      "ELF\0\xff\n",
      7);
  REQUIRE(store.keep(kKey, cubin(image)).ok());
  struct stat made {};
  REQUIRE(::stat(deep.c_str(), &made) == 0);
  CHECK((made.st_mode & 0777) == 0700);
  const CubinStore::Found found = CubinStore(deep.string()).find(kKey);
  REQUIRE(found.cubin);
  CHECK(found.problem.ok());
  CHECK(found.cubin->image == image);
  CHECK(found.cubin->log == "as told");
  CHECK(found.cubin->nvrtc_version == 13010);
  CHECK(found.cubin->compile_s == 0);
  CHECK(!store.find(std::string(32, 'b')).cubin);
  REQUIRE(store.keep(kKey, cubin("another", "")).ok());
  CHECK(store.find(kKey).cubin->image == "another");
  CHECK(files_in(deep) == 1);
}

TEST_CASE("without a folder nothing is kept or found, and nothing is wrong") {
  const CubinStore store("");
  CHECK(store.keep(kKey, cubin("image")).ok());
  CHECK(!store.find(kKey).cubin);
  CHECK(store.find(kKey).problem.ok());
}

TEST_CASE("a damaged file is told and left alone, and written anew") {
  const TemporaryFolder folder;
  const CubinStore store(folder.path.string());
  REQUIRE(store.keep(kKey, cubin("an image", "a log")).ok());
  const fs::path path = folder.path / (kKey + ".cubin");
  const std::string whole = read(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    write(path, damaged);
    CAPTURE(i);
    CHECK(problem(store) == "left alone, " + path.string() + ": it is damaged, or no such file");
    write(path, whole.substr(0, i));
    CHECK(problem(store) != "");
  }
  write(path, whole + "x");
  CHECK(problem(store) != "");
  // The file of another key under this name.
  REQUIRE(store.keep(std::string(32, 'b'), cubin("an image", "a log")).ok());
  fs::rename(folder.path / (std::string(32, 'b') + ".cubin"), path);
  CHECK(problem(store) != "");
  REQUIRE(store.keep(kKey, cubin("an image", "a log")).ok());
  CHECK(store.find(kKey).cubin);
}

TEST_CASE("a folder or file that others can write to, or that is another's, is left alone") {
  const TemporaryFolder folder;
  const CubinStore store(folder.path.string());
  REQUIRE(store.keep(kKey, cubin("image")).ok());
  const fs::path path = folder.path / (kKey + ".cubin");
  for (const mode_t mode : {mode_t{0770}, mode_t{0707}, mode_t{0777}}) {
    REQUIRE(::chmod(folder.path.c_str(), mode) == 0);
    CHECK(problem(store) ==
          "left alone, the folder " + folder.path.string() + ": others may write to it");
    const ai::Status refused = store.keep(std::string(32, 'b'), cubin("image"));
    CHECK(refused.code() == ai::StatusCode::Unsupported);
    CHECK(files_in(folder.path) == 1);
  }
  REQUIRE(::chmod(folder.path.c_str(), 0755) == 0);  // who may read it does no harm
  CHECK(store.find(kKey).cubin);
  REQUIRE(::chmod(path.c_str(), 0620) == 0);
  CHECK(problem(store) == "left alone, " + path.string() + ": others may write to it");
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  if (::geteuid() == 0) {
    REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
    CHECK(problem(store) == "left alone, " + path.string() + ": it is another user's");
    REQUIRE(::chown(path.c_str(), 0, 0) == 0);
    REQUIRE(::chown(folder.path.c_str(), 12345, 12345) == 0);
    CHECK(problem(store) ==
          "left alone, the folder " + folder.path.string() + ": it is another user's");
    REQUIRE(::chown(folder.path.c_str(), 0, 0) == 0);
  }
  CHECK(store.find(kKey).cubin);
}

TEST_CASE("links and what is no file are not followed or waited for") {
  const TemporaryFolder folder;
  const CubinStore store(folder.path.string());
  REQUIRE(store.keep(kKey, cubin("image")).ok());
  const fs::path path = folder.path / (kKey + ".cubin");
  const fs::path aside = folder.path / "aside";
  fs::rename(path, aside);
  fs::create_symlink(aside, path);
  CHECK(problem(store) != "");
  fs::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(problem(store) == "left alone, " + path.string() + ": it is no regular file");
  fs::remove(path);
  fs::create_directory(path);
  CHECK(problem(store) == "left alone, " + path.string() + ": it is no regular file");
  CHECK(!store.keep(kKey, cubin("image")).ok());
  CHECK(files_in(folder.path) == 2);  // no temporary file is left
  const CubinStore on_file(aside.string());
  CHECK(!on_file.find(kKey).problem.ok());
  CHECK(!on_file.keep(kKey, cubin("image")).ok());
}

TEST_CASE("threads and processes at once never see half a file") {
  const TemporaryFolder folder;
  const CubinStore store(folder.path.string());
  const std::string long_image(200000, 'x');
  const auto work = [&](int rounds) {
    bool good = true;
    for (int i = 0; i < rounds; ++i) {
      const std::string image = long_image + std::to_string(i);
      good = good && store.keep(kKey, cubin(image)).ok();
      const CubinStore::Found found = store.find(kKey);
      good = good && found.cubin && found.problem.ok() && found.cubin->image.size() > 200000;
    }
    return good;
  };
  constexpr int kProcesses = 3;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work(30) ? 0 : 1);
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  std::vector<char> good(3, 0);
  for (char& each : good) threads.emplace_back([&] { each = work(30) ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  for (const char each : good) CHECK(each == 1);
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(files_in(folder.path) == 1);
}

TEST_CASE("a key tells every part of a request from every other") {
  CompileRequest base;
  base.source = "source";
  base.name = "a.cu";
  base.headers = {{"h", "text"}};
  base.options = {"-x", "-y"};
  base.compute_capability = 90;
  std::vector<CompileRequest> all(9, base);
  all[1].source += " ";
  all[2].name = "b.cu";
  all[3].headers[0].text = "txet";
  all[4].headers.push_back({"", ""});
  all[5].options = {"-x-y"};
  all[6].compute_capability = 80;
  all[7].arch_specific = true;
  all[8].headers = {{"ht", "ext"}};
  std::set<std::string> keys;
  for (const CompileRequest& request : all) {
    const std::string key = cubin_key(request);
    CHECK(key.size() == 32);
    CHECK(key.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(keys.insert(key).second);
    CHECK(cubin_key(request) == key);
  }
}
