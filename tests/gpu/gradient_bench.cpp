// Checks the gradient steps against f64 on the host over odd shapes, pitches, offsets and modes,
// then measures them in replayed graphs against a device-to-device copy of the same run.
//   gradient_bench [--quick | --sanitize]   exit code: 0 all right, 1 wrong results, 77 no GPU
// --quick checks one shape in eight; --sanitize too, and measures nothing.

#include <chrono>
#include <cstring>

#include "cuda/api.hpp"
#include "gradient_bench_checks.hpp"
#include "gradient_bench_support.hpp"
#include "kernels/gradients.hpp"

namespace gradient_bench {
namespace {

/// Median over batches of the time of one call of `f`, in microseconds.
template <typename F>
double time_us(cudaStream_t stream, int per_batch, F&& f) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  for (int i = 0; i < per_batch; ++i) f();
  std::vector<double> times;
  for (int batch = 0; batch < 21; ++batch) {
    check(cudaEventRecord(begin, stream), "record");
    for (int i = 0; i < per_batch; ++i) f();
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "synchronize");
    float ms = 0.0F;
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    times.push_back(1000.0 * static_cast<double>(ms) / per_batch);
  }
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return times[10];
}

double copy_gb_s(cudaStream_t stream, std::size_t bytes) {
  void* from = nullptr;
  void* to = nullptr;
  check(cudaMalloc(&from, bytes), "cudaMalloc");
  check(cudaMalloc(&to, bytes), "cudaMalloc");
  check(cudaMemset(from, 0x3D, bytes), "cudaMemset");
  const double us = time_us(stream, bytes > (1U << 28U) ? 3 : 20, [&] {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  });
  check(cudaFree(from), "cudaFree");
  check(cudaFree(to), "cudaFree");
  return 2e-3 * static_cast<double>(bytes) / us;
}

void warm_up(cudaStream_t stream) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(500)) {
    (void)copy_gb_s(stream, 64U << 20U);
  }
}

/// Times every candidate; checks that each replay leaves the same bits.
void measure(const Shape& s, int sm_count, cudaStream_t stream, double copy) {
  Numbers random(7);
  Fixture f(s);
  f.gy.fill([&] { return random.normal(1.0F); });
  f.z.fill([&] { return random.normal(1.0F); });
  f.gy.upload();
  f.z.upload();
  const bool store_gz = s.act != ActKind::None;
  void* const gz = store_gz ? symbolic::allocate(static_cast<std::size_t>(s.m * s.n) * 4) : nullptr;
  const GemmPlan plan = plan_of(s, f.gy, f.z, f.gc, f.bias);
  const std::vector<Candidate> candidates =
      kernels::gradient_task(cuda::runtime_api(), sm_count, plan, gz).candidates;
  Scratch scratch;
  for (const Candidate& candidate : candidates) scratch.add(candidate);
  scratch.allocate();
  const double bytes = static_cast<double>(s.m * s.n) * 4.0 * (store_gz ? 3.0 : 1.0);
  for (const Candidate& candidate : candidates) {
    char name[120];
    std::snprintf(name, sizeof(name), "[%lld,%lld] %s %s %s", static_cast<long long>(s.m),
                  static_cast<long long>(s.n), to_string(s.act), to_string(s.kind),
                  candidate.name.c_str());
    if (!candidate.applicable()) {
      std::printf("%-58s - %s\n", name, candidate.reason.c_str());
      continue;
    }
    const Replay replay(candidate, scratch.map(), stream);
    replay.run();
    f.bias.download();
    std::vector<float> first;
    for (std::int64_t i = 0; i < Fixture::count(s); ++i) first.push_back(f.bias.at(i, 0));
    const double us = time_us(stream, bytes > 1e7 ? 20 : 200, [&] { replay.launch(); });
    f.bias.download();
    for (std::int64_t i = 0; i < Fixture::count(s); ++i) {
      const float now = f.bias.at(i, 0);
      if (std::memcmp(&now, &first[static_cast<std::size_t>(i)], sizeof(now)) != 0) {
        fail(std::string(name) + ": replays differ");
        break;
      }
    }
    const double gb_s = 1e-3 * bytes / us;
    std::printf("%-58s %8.2f us %8.1f GB/s %6.3f of copy\n", name, us, gb_s, gb_s / copy);
  }
}

void measure_all(int sm_count, cudaStream_t stream) {
  warm_up(stream);
  const std::size_t half = static_cast<std::size_t>(16384) * 1024 * 4 * 3 / 2;
  const double copy = copy_gb_s(stream, half);
  std::printf("copy of 100.7 MB %.1f GB/s, of 1 GiB %.1f GB/s (bytes read + written)\n", copy,
              copy_gb_s(stream, std::size_t{1} << 30U));
  for (const BiasKind kind : {BiasKind::PerN, BiasKind::PerM, BiasKind::Scalar, BiasKind::None}) {
    measure({16384, 1024, ActKind::ReLU, kind}, sm_count, stream, copy);
  }
  measure({16384, 1024, ActKind::GELU, BiasKind::PerN}, sm_count, stream, copy);
  measure({16384, 1024, ActKind::Tanh, BiasKind::PerN}, sm_count, stream, copy);
  measure({16384, 1023, ActKind::ReLU, BiasKind::PerN}, sm_count, stream, copy);
  for (const BiasKind kind : {BiasKind::PerN, BiasKind::PerM, BiasKind::Scalar}) {
    measure({16384, 1024, ActKind::None, kind}, sm_count, stream, copy);
  }
  std::printf("copy of 100.7 MB again %.1f GB/s\n", copy_gb_s(stream, half));
  const std::int64_t small[][2] = {{1, 256},   {64, 10},    {64, 64},    {64, 256},  {256, 256},
                                   {512, 256}, {1024, 256}, {2048, 256}, {4096, 256}};
  for (const auto& shape : small) {
    for (const BiasKind kind : {BiasKind::PerN, BiasKind::PerM, BiasKind::Scalar}) {
      measure({shape[0], shape[1], ActKind::ReLU, kind}, sm_count, stream, copy);
    }
  }
  const std::int64_t few[][2] = {{1, 64},  {4, 256},  {16, 1024}, {16, 11008}, {32, 256},
                                 {64, 64}, {64, 256}, {256, 20},  {128, 1024}, {512, 64}};
  for (const auto& shape : few) {
    for (const ActKind act : {ActKind::None, ActKind::ReLU, ActKind::Tanh}) {
      measure({shape[0], shape[1], act, BiasKind::PerN}, sm_count, stream, copy);
    }
  }
  measure({64, 256, ActKind::ReLU, BiasKind::None}, sm_count, stream, copy);
  measure({64, 256, ActKind::None, BiasKind::PerM}, sm_count, stream, copy);
  measure({64, 256, ActKind::None, BiasKind::Scalar}, sm_count, stream, copy);
}

}  // namespace
}  // namespace gradient_bench

int main(int argc, char** argv) {
  using namespace gradient_bench;
  const bool sanitize = argc > 1 && std::string(argv[1]) == "--sanitize";
  const bool quick = sanitize || (argc > 1 && std::string(argv[1]) == "--quick");
  g_fill_scratch = !sanitize;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU\n");
    return 77;
  }
  int sm_count = 0;
  check(cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, 0), "attribute");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check_all(quick, sm_count, stream);
  print_checked();
  if (!sanitize) measure_all(sm_count, stream);
  check(cudaStreamDestroy(stream), "stream");
  return g_failures == 0 ? 0 : 1;
}
