// A second process with the tuning file of a first one: the same chain kernels, nothing measured.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "chain_device.hpp"
#include "support/temporary_folder.hpp"

namespace {

using gpu::ChainNetwork;
using gpu::ChainSpec;
using gpu::DeviceChain;

namespace fs = std::filesystem;

constexpr const char* kFolderVariable = "GE_TEST_CHAIN_FOLDER";
constexpr const char* kKernelsVariable = "GE_TEST_CHAIN_KERNELS";  // "kept" or "lost"

std::vector<ChainSpec> chains() {
  return {gpu::plain_chain({64, 256, 256, 8}, ai::ActKind::ReLU, 1),
          gpu::hidden(gpu::plain_chain({64, 64, 64, 8}, ai::ActKind::Tanh, 64)),
          gpu::hidden(gpu::plain_chain({235, 512, 256, 128, 12}, ai::ActKind::ELU, 1), true),
          gpu::hidden(gpu::plain_chain({479, 1024, 1024, 256, 3}, ai::ActKind::ReLU, 1)),
          gpu::plain_chain({235, 1024, 1024, 64}, ai::ActKind::GELUTanh, 128)};
}

ai::CaptureOptions options_of(const std::string& folder) {
  return gpu::measured(2.0, folder + "/tuning.json");
}

std::string bits_of(ChainNetwork& network) {
  std::string bits;
  network.for_each([&](const char*, support::Buffer& buffer, bool) {
    bits.append(reinterpret_cast<const char*>(buffer.raw().data()), buffer.raw_bytes());
  });
  return bits;
}

std::string bits_file(const std::string& folder, std::size_t i) {
  return folder + "/bits-" + std::to_string(i);
}

/// What the second process does.
void start_again(const std::string& folder) {
  const char* const kernels = std::getenv(kKernelsVariable);
  const bool are_lost = kernels != nullptr && std::string(kernels) == "lost";
  const std::vector<ChainSpec> specs = chains();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    CAPTURE(gpu::to_string(specs[i]));
    DeviceChain chain(specs[i], options_of(folder));
    CAPTURE(chain.executable.explain());
    CHECK(chain.executable.tuning().candidates_timed == 0);
    CHECK(chain.executable.tuning().heuristic_queries == 0);
    CHECK((chain.executable.tuning().kernels_compiled > 0) == are_lost);
    CHECK(chain.is_one());
    chain.run();
    CHECK(chain.verdict().faults == "");
    std::ifstream file(bits_file(folder, i), std::ios::binary);
    const std::string expected{std::istreambuf_iterator<char>(file), {}};
    CHECK((bits_of(chain.now) == expected));
    MESSAGE("second start: ", chain.executable.tuning().seconds, " s of choosing, ",
            chain.executable.tuning().kernels_compiled, " kernels compiled, ", chain.summary());
  }
}

/// Runs `test` of this program in a process of its own, which calls start_again.
void check_second_process(const char* test, const std::string& folder, const std::string& kernels) {
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  const std::string command = std::string(kFolderVariable) + "='" + folder + "' " +
                              kKernelsVariable + "=" + kernels + " '" + program + "' '-tc=" + test +
                              "' 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  char part[4096];
  while (const std::size_t count = std::fread(part, 1, sizeof part, pipe))
    output.append(part, count);
  const int code = pclose(pipe);
  const bool is_good = WIFEXITED(code) && WEXITSTATUS(code) == 0;
  if (!is_good) std::fputs(output.c_str(), stderr);
  CHECK(is_good);
}

/// Folders beside the tuning file: there the kernels are.
std::vector<fs::path> kernel_folders(const TemporaryFolder& folder) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path)) {
    if (entry.is_directory()) found.push_back(entry.path());
  }
  return found;
}

int files_in(const TemporaryFolder& folder) {
  int count = 0;
  for (const fs::path& path : kernel_folders(folder)) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path))
      count += entry.is_regular_file() ? 1 : 0;
  }
  return count;
}

TEST_CASE(
    "a second start takes chains from the tuning file, with their kernels, without them, damaged") {
  constexpr const char* kTest = "a second start takes chains*";
  if (const char* const given = std::getenv(kFolderVariable)) {
    start_again(given);
    return;
  }
  const TemporaryFolder folder;
  const std::vector<ChainSpec> specs = chains();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    CAPTURE(gpu::to_string(specs[i]));
    DeviceChain chain(specs[i], options_of(folder.path.string()));
    CAPTURE(chain.executable.explain());
    CHECK(chain.executable.tuning().candidates_timed > 0);
    CHECK(chain.is_one());
    chain.run();
    CHECK(chain.verdict().faults == "");
    std::ofstream(bits_file(folder.path.string(), i), std::ios::binary) << bits_of(chain.now);
    MESSAGE("first start: ", chain.executable.tuning().seconds, " s of choosing, ",
            chain.summary());
    // In this process again, where what was read and compiled may still be in memory.
    const ai::Executable again =
        gpu::captured_as(gpu::program_of(chain.now, chain.arena), options_of(folder.path.string()));
    CHECK(again.tuning().candidates_timed == 0);
    CHECK(again.tuning().heuristic_queries == 0);
    CHECK(gpu::is_one_node(again));
  }
  const int kernels = files_in(folder);
  CHECK(kernels > 0);
  check_second_process(kTest, folder.path.string(), "kept");

  for (const fs::path& path : kernel_folders(folder)) fs::remove_all(path);
  check_second_process(kTest, folder.path.string(), "lost");
  const int made_again = files_in(folder);
  CHECK(made_again > 0);

  for (const fs::path& path : kernel_folders(folder)) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) fs::resize_file(entry.path(), entry.file_size() / 2);
    }
  }
  check_second_process(kTest, folder.path.string(), "lost");
  MESSAGE("second starts with ", kernels, " files of kernels, without them (", made_again,
          " made again) and with each cut in half");
}

}  // namespace
