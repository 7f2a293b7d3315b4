// What starting costs, with a program and a clock of the test's own.
#include "bench/starts.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// A folder for the scope.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "starts_test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

/// Shares what it has loaded among its executables, as a process does with kernels: only a start
/// that finds none of it pays for loading.
class Program {
 public:
  static constexpr double kLoadMs = 100;

  bench::Startable startable() {
    return {[this] { release(); }, [this](const std::string& file) { return start(file); },
            [this] { return now_ms; }};
  }

  double now_ms = 0;
  std::vector<double> own_ms = {5000, 3, 1, 9, 4, 2};  // of each start, beside loading
  std::vector<bench::StartReport> reports = {{70, 12}, {0, 2}, {6, 0}, {0, 0}, {1, 1}, {0, 0}};
  std::vector<std::string> read;  // what each start found in its tuning file
  std::set<std::string> files;

 private:
  void release() {
    is_loaded_ = false;
    now_ms += 1000;  // letting go takes its time, which is none of the start's
  }
  bench::StartReport start(const std::string& file) {
    std::ifstream in(file);
    read.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    files.insert(file);
    const std::size_t number = read.size() - 1;
    if (number == 0) std::ofstream(file) << "chosen";
    now_ms += own_ms.at(number) + (is_loaded_ ? 0 : kLoadMs);
    is_loaded_ = true;
    return reports.at(number);
  }

  bool is_loaded_ = false;
};

TEST_CASE("a second start loads its kernels anew, and the slowest of five is told") {
  const Folder folder;
  Program program;
  const bench::Starts starts = bench::time_starts(program.startable(), folder.path);
  CHECK(starts.cold_ms == 5000 + Program::kLoadMs);
  CHECK(starts.cached_ms == 9 + Program::kLoadMs);
  CHECK(program.read.size() == 1 + 5);
}

TEST_CASE("each second start reads the first one's tuning under a name of its own") {
  const Folder folder;
  Program program;
  (void)bench::time_starts(program.startable(), folder.path);
  CHECK(program.read ==
        std::vector<std::string>{"", "chosen", "chosen", "chosen", "chosen", "chosen"});
  CHECK(program.files.size() == 6);
  for (const std::string& file : program.files) CHECK(fs::path(file).parent_path() == folder.path);
}

TEST_CASE("of the counts of second starts the most are told, each by itself") {
  const Folder folder;
  Program program;
  const bench::Starts starts = bench::time_starts(program.startable(), folder.path);
  CHECK(starts.candidates_timed == 6);
  CHECK(starts.heuristic_queries == 2);
}

}  // namespace
