#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "server.hpp"
#include "table.hpp"

namespace {

constexpr const char* kUsage =
    R"(usage: bench_suite                     answers requests on stdin, as bench/run makes them
       bench_suite --list              the workloads
       bench_suite WORKLOAD... [options]            measures ours and the two peers on cuBLASLt
       bench_suite --compare WORKLOAD... [options]  ours against the peers, interleaved; exit code 1 where
                                       a result is wrong or absent, or a ratio above 1.05
options: --batch N    only this batch
         --mode M     forward, forward_backward, train_step or all; forward where it is not said
         --explain    what the library chose, and why
Exit code 77: there is no GPU.
)";

struct Arguments {
  bool lists = false;
  bool compares = false;
  bool explains = false;
  bench::Selection selection = {{}, std::nullopt, bench::Mode::Forward};
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] {
      if (i + 1 >= argc) throw bench::Failed(argument + " needs a value");
      return std::string(argv[++i]);
    };
    if (argument == "--list") {
      arguments.lists = true;
    } else if (argument == "--compare") {
      arguments.compares = true;
    } else if (argument == "--explain") {
      arguments.explains = true;
    } else if (argument == "--batch") {
      const std::string batch = value();
      char* end = nullptr;
      const long number = std::strtol(batch.c_str(), &end, 10);
      if (*end != '\0' || number < 1 || number > 1000000) {
        throw bench::Failed("--batch is '" + batch + "', expected an integer of at least 1");
      }
      arguments.selection.batch = static_cast<int>(number);
    } else if (argument == "--mode") {
      const std::string mode = value();
      arguments.selection.mode = std::nullopt;
      if (mode != "all") arguments.selection.mode = bench::parse_mode(mode);
    } else if (argument.substr(0, 1) == "-") {
      throw bench::Failed("there is no option " + argument + "\n" + kUsage);
    } else {
      arguments.selection.workloads.push_back(argument);
    }
  }
  return arguments;
}

void print_list(const std::vector<bench::Workload>& suite) {
  for (const bench::Workload& workload : suite) {
    std::string layers;
    for (const int width : workload.layers) {
      layers += (layers.empty() ? "" : "-") + std::to_string(width);
    }
    std::string batches;
    for (const int batch : workload.batches) {
      batches += (batches.empty() ? "" : ", ") + std::to_string(batch);
    }
    std::printf("%-12s %s  %s  batch %s\n", workload.name.c_str(), layers.c_str(),
                ai::to_string(workload.activation), batches.c_str());
  }
}

int run(int argc, char** argv) {
  if (argc == 2 && (std::string(argv[1]) == "-h" || std::string(argv[1]) == "--help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (argc == 1) {
    bench::serve(std::cin, std::cout);
    return 0;
  }
  const Arguments arguments = parse(argc, argv);
  const auto suite = bench::built_in_suite();
  if (arguments.lists) {
    print_list(suite);
    return 0;
  }
  if (arguments.selection.workloads.empty())
    throw bench::Failed("name a workload; --list lists them");
  const auto rows = bench::select(suite, arguments.selection);
  bench::Session session;
  const bool good = arguments.compares ? bench::print_comparison(session, rows, arguments.explains)
                                       : bench::print_rows(session, rows, arguments.explains);
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const bench::Absent& absent) {
    std::printf("skipped: %s\n", absent.what());
    return 77;
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "bench_suite: %s\n", failed.what());
    return 2;
  }
}
