// Trains and serves a classifier of handwritten digits by replaying captured plans.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "latency.hpp"
#include "network.hpp"
#include "plot.hpp"
#include "train.hpp"

namespace {

constexpr int kTestCount = 450;
constexpr std::uint32_t kSplitSeed = 2026;
constexpr const char* kUsage =
    "usage: digits [--target host|cuda|auto] [--seeds N] [--epochs N] [--data FILE] [--explain]\n";

struct Arguments {
  ai::Target target = ai::Target::Auto;
  int seeds = 5;
  int epochs = 60;
  std::string data = DIGITS_DATA;
  bool explain = false;
};

bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--explain") {
      arguments.explain = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const std::string value = argv[++i];
    if (option == "--target" && value == "host") {
      arguments.target = ai::Target::Host;
    } else if (option == "--target" && value == "cuda") {
      arguments.target = ai::Target::CUDA;
    } else if (option == "--target" && value == "auto") {
      arguments.target = ai::Target::Auto;
    } else if (option == "--seeds") {
      arguments.seeds = std::atoi(value.c_str());
    } else if (option == "--epochs") {
      arguments.epochs = std::atoi(value.c_str());
    } else if (option == "--data") {
      arguments.data = value;
    } else {
      return false;
    }
  }
  return arguments.seeds > 0 && arguments.epochs > 0;
}

ai::Result<std::unique_ptr<digits::Memory>> make_memory(ai::Target target) {
  if (target == ai::Target::Host) return digits::make_host_memory();
  const ai::Status cuda = ai::target_available(ai::Target::CUDA);
  if (cuda.ok()) {
    auto memory = digits::make_cuda_memory();
    AI_RETURN_IF_ERROR(memory->status());
    return memory;
  }
  if (target == ai::Target::CUDA) return cuda;
  std::printf("no GPU to use (%s): running on the host\n", cuda.to_string().c_str());
  return digits::make_host_memory();
}

ai::Status print_latency(digits::Memory& memory, digits::Network::Inference& inference) {
  auto& executable = inference.executable;
  const auto replay = digits::measure([&] {
    AI_RETURN_IF_ERROR(executable.launch(memory.stream()));
    return executable.wait();
  });
  if (!replay.ok()) return replay.status();
  const auto enqueue = digits::measure([&] {
    AI_RETURN_IF_ERROR(executable.enqueue(memory.stream()));
    return executable.wait();
  });
  if (!enqueue.ok()) return enqueue.status();
  std::printf("%5d   %8.2f %8.2f %8.2f   %8.2f %8.2f %8.2f   %6.2fx\n", inference.batch,
              replay->p50, replay->p99, replay->p999, enqueue->p50, enqueue->p99, enqueue->p999,
              enqueue->p50 / replay->p50);
  return {};
}

ai::Status run(const Arguments& arguments) {
  auto data = digits::load_dataset(arguments.data, kTestCount, kSplitSeed);
  if (!data.ok()) return data.status();
  auto memory_or = make_memory(arguments.target);
  if (!memory_or.ok()) return memory_or.status();
  digits::Memory& memory = **memory_or;
  std::printf("target %s; 64-128-64-10 ReLU; %d images to train on, %d to test with\n",
              to_string(memory.target()), data->train.count(), data->test.count());

  digits::Network network(memory);
  const digits::Epoch epoch(memory, data->train.count());
  AI_RETURN_IF_ERROR(memory.status());
  auto step = network.capture_training_step();
  if (!step.ok()) return step.status();
  auto single = network.capture_inference(1);
  if (!single.ok()) return single.status();
  auto batch = network.capture_inference(digits::kBatch);
  if (!batch.ok()) return batch.status();
  std::printf("one training step: %zu nodes, %zu bytes of workspace\n", step->nodes().size(),
              step->workspace_bytes());
  if (arguments.explain) std::printf("%s\n", step->explain().c_str());

  const bool terminal = isatty(STDOUT_FILENO) != 0;
  std::vector<float> first_losses;
  double total = 0.0;
  for (int seed = 1; seed <= arguments.seeds; ++seed) {
    digits::TrainOptions options;
    options.epochs = arguments.epochs;
    options.seed = static_cast<std::uint32_t>(seed);
    if (terminal) {
      options.on_epoch = [&](int turn, float loss) {
        std::printf("\rseed %d %s epoch %d/%d loss %.4f ", seed,
                    digits::bar(turn, options.epochs).c_str(), turn, options.epochs,
                    static_cast<double>(loss));
        std::fflush(stdout);
      };
    }
    auto losses = digits::train(memory, network, *step, epoch, data->train, options);
    if (!losses.ok()) return losses.status();
    const auto right = digits::accuracy(memory, *batch, data->test);
    if (!right.ok()) return right.status();
    total += *right;
    std::printf("%sseed %d: loss %.4f -> %.4f, test accuracy %.4f%s\n", terminal ? "\r" : "", seed,
                static_cast<double>(losses->front()), static_cast<double>(losses->back()), *right,
                terminal ? "                              " : "");
    if (seed == 1) first_losses = std::move(*losses);
  }
  std::printf("\nmean loss of each epoch, seed 1 (logarithmic)\n%s\naccuracy %.3f\n\n",
              digits::plot(first_losses).c_str(), total / arguments.seeds);

  std::printf("inference, host-observed microseconds\n");
  std::printf("batch   replay: p50      p99    p99.9   enqueued: p50    p99    p99.9    ratio\n");
  AI_RETURN_IF_ERROR(print_latency(memory, *single));
  return print_latency(memory, *batch);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  const ai::Status status = run(arguments);
  if (!status.ok()) std::fprintf(stderr, "digits: %s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
