// Captured forward passes against the same networks written by hand on cuBLASLt, interleaved on one
// GPU: device microseconds per replay, back to back.
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "ai/ai.hpp"
#include "cuda/device_info.hpp"
#include "cuda/lt_api.hpp"
#include "peers/cublaslt_chain.hpp"
#include "timing.hpp"

namespace {

struct Network {
  const char* name;
  std::vector<int> widths;
  int batch;
};

const std::vector<Network> kNetworks = {
    {"policy", {64, 256, 256, 8}, 1},
    {"wide", {1024, 1024, 1024, 1024, 1024}, 16},
    {"policy", {64, 256, 256, 8}, 64},
    {"wide", {1024, 1024, 1024, 1024, 1024}, 1},
};
constexpr double kBound = 1.05;
constexpr int kRounds = 31;
constexpr int kLaunches = 200;

class Buffers {
 public:
  ~Buffers() {
    for (float* block : blocks_) (void)cudaFree(block);
  }
  float* make(std::size_t count, float limit) {
    std::vector<float> values(count);
    std::uniform_real_distribution<float> uniform(-limit, limit);
    for (float& value : values) value = uniform(generator_);
    void* block = nullptr;
    bench::check(cudaMalloc(&block, count * sizeof(float)), "cudaMalloc");
    bench::check(cudaMemcpy(block, values.data(), count * sizeof(float), cudaMemcpyHostToDevice),
                 "cudaMemcpy");
    blocks_.push_back(static_cast<float*>(block));
    return blocks_.back();
  }

 private:
  std::mt19937 generator_{7};
  std::vector<float*> blocks_;
};

std::vector<float> download(const float* data, std::size_t count) {
  std::vector<float> values(count);
  bench::check(cudaMemcpy(values.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost),
               "cudaMemcpy");
  return values;
}

ai::Status run(const Network& network, cudaStream_t stream, bool explain, bool& within) {
  Buffers buffers;
  std::vector<float*> ours;
  std::vector<float*> theirs;
  std::vector<float*> weights;
  std::vector<float*> biases;
  const std::size_t layers = network.widths.size() - 1;
  for (std::size_t i = 0; i <= layers; ++i) {
    const auto count = static_cast<std::size_t>(network.batch * network.widths[i]);
    ours.push_back(buffers.make(count, 1.0F));
    theirs.push_back(i == 0 ? ours[0] : buffers.make(count, 1.0F));
  }
  for (std::size_t i = 0; i < layers; ++i) {
    const auto fan_in = static_cast<std::size_t>(network.widths[i]);
    const auto fan_out = static_cast<std::size_t>(network.widths[i + 1]);
    weights.push_back(buffers.make(fan_in * fan_out, std::sqrt(6.0F / static_cast<float>(fan_in))));
    biases.push_back(buffers.make(fan_out, 0.1F));
  }

  auto peer = bench::CublasLtChain::make(network.widths, network.batch, theirs, weights, biases);
  if (!peer.ok()) return peer.status();

  ai::Program program;
  for (std::size_t i = 0; i < layers; ++i) {
    const int m = network.batch;
    const int k = network.widths[i];
    const int n = network.widths[i + 1];
    const auto plan = ai::plan_forward(
        {.A = ai::make_tensor_2d(ours[i], {m, k}),
         .B = ai::make_tensor_2d(weights[i], {k, n}),
         .bias = ai::make_tensor_2d(biases[i], {1, n}),
         .Y = ai::make_tensor_2d(ours[i + 1], {m, n}),
         .attrs = {.act = i + 1 < layers ? ai::ActKind::ReLU : ai::ActKind::None}});
    if (!plan.ok()) return plan.status();
    AI_RETURN_IF_ERROR(program.add(*plan));
  }
  auto executable = ai::capture(program, {.tuning_budget_s = 5.0});
  if (!executable.ok()) return executable.status();
  if (explain) std::printf("%s\n", executable->explain().c_str());

  const auto launch_ours = [&](cudaStream_t on) {
    if (const ai::Status status = executable->launch(on); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.to_string().c_str());
      std::exit(1);
    }
  };
  const auto launch_peer = [&](cudaStream_t on) { peer->launch(on); };
  bench::warm_up(stream, launch_ours, 0.5);
  const auto samples = bench::interleaved(stream, {launch_ours, launch_peer}, kRounds, kLaunches);

  const std::size_t outputs = static_cast<std::size_t>(network.batch * network.widths.back());
  const auto y = download(ours.back(), outputs);
  const auto reference = download(theirs.back(), outputs);
  double error = 0.0;
  double scale = 0.0;
  for (std::size_t i = 0; i < outputs; ++i) {
    error = std::fmax(error, std::fabs(static_cast<double>(y[i] - reference[i])));
    scale = std::fmax(scale, std::fabs(static_cast<double>(reference[i])));
  }

  const double ours_us = bench::quantile(samples[0]);
  const double peer_us = bench::quantile(samples[1]);
  const bool agrees = error <= 1e-5 * scale * std::sqrt(static_cast<double>(layers));
  within = within && agrees && ours_us <= kBound * peer_us;
  std::printf("%-8s %5d   %8.2f   %8.2f   %5.3f   %9.1e   %s\n", network.name, network.batch,
              ours_us, peer_us, ours_us / peer_us, error / scale, agrees ? "" : "RESULTS DIFFER");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (const ai::Status status = ai::target_available(ai::Target::CUDA); !status.ok()) {
    std::printf("skipped: %s\n", status.to_string().c_str());
    return 77;
  }
  const bool explain = argc > 1 && std::string(argv[1]) == "--explain";
  cudaStream_t stream = nullptr;
  bench::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  const auto device = ai::cuda::device_info(ai::cuda::runtime_api(), 0);
  const auto lt = ai::cuda::lt_api();
  if (!device.ok() || !lt.ok()) {
    const ai::Status& status = device.ok() ? lt.status() : device.status();
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    return 1;
  }
  std::printf("%s, driver for CUDA %s, runtime %s, cuBLASLt %zu\n", device->name.c_str(),
              ai::cuda::version_text(device->driver_version).c_str(),
              ai::cuda::version_text(device->runtime_version).c_str(), (*lt)->get_version());
  std::printf("network  batch    ours us    cuBLASLt   ratio   max error\n");
  bool within = true;
  for (const Network& network : kNetworks) {
    if (const ai::Status status = run(network, stream, explain, within); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.to_string().c_str());
      return 1;
    }
  }
  std::printf("%s\n", within ? "every ratio is within 1.05" : "a ratio is above 1.05");
  return within ? 0 : 1;
}
