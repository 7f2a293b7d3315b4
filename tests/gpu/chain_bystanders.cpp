// Chain kernels beside work of others that fills the GPU.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "bystander.hpp"
#include "chain_hammer.hpp"
#include "layer.hpp"

namespace {

using gpu::ChainSpec;
using gpu::DeviceChain;
using gpu::Hammer;
using gpu::Images;
using gpu::OwnStream;

/// Replays in batches, each of which has to end in good time. How many ended.
int hammered(DeviceChain& chain, const Images& images, Hammer& hammer, const OwnStream& stream,
             int replays, double seconds_a_batch) {
  constexpr int kBatch = 100;
  for (int done = 0; done < replays; done += kBatch) {
    for (int i = 0; i < kBatch; ++i) {
      if (!hammer.enqueue(chain.executable, chain.arena, images, stream.get())) return done;
    }
    if (!gpu::ends_within(stream.get(), seconds_a_batch)) return done;
  }
  return replays;
}

TEST_CASE("10,000 replays give the same bits beside kernels that fill the GPU") {
  constexpr int kReplays = 10000;
  for (const ChainSpec& spec : gpu::hammered_chains()) {
    CAPTURE(gpu::to_string(spec));
    DeviceChain chain(spec);
    CHECK(chain.is_one());
    chain.run();
    CHECK(chain.verdict().faults == "");
    chain.reset();
    const Images images(chain.executable, chain.arena);
    Hammer hammer;
    const OwnStream others[2];
    // While one stream is waited for, grids of four waves wait their turn on the other.
    constexpr int kGrids = 8;
    int turn = 0;
    gpu::Bystander bystander([&] {
      ++turn;
      for (int i = 0; i < kGrids; ++i) {
        if (gpu::enqueue_waves(4, 10000, others[turn % 2].get()) != cudaSuccess) return false;
      }
      return cudaStreamSynchronize(others[(turn + 1) % 2].get()) == cudaSuccess;
    });
    while (bystander.turns() == 0) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    const int turns = bystander.turns();
    const OwnStream stream;
    const int done = hammered(chain, images, hammer, stream, kReplays, 20.0);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const int beside = bystander.turns() - turns;
    bystander.stop();
    CHECK(done == kReplays);
    CHECK(bystander.errors() == 0);
    CHECK(hammer.different() == 0);
    MESSAGE(done, " of ", kReplays, " replays in ", seconds, " s beside ", kGrids * beside,
            " grids of four waves, ", chain.summary());
  }
}

/// A flag and a count in memory that host and device see.
struct Mapped {
  Mapped() {
    gpu::require_done(cudaHostAlloc(&host, 2 * sizeof(int), cudaHostAllocMapped), "mapped memory");
    host[0] = host[1] = 0;
    gpu::require_done(cudaHostGetDevicePointer(&device, host, 0), "mapped memory");
  }
  ~Mapped() { (void)cudaFreeHost(host); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  [[nodiscard]] int read(int i) const { return static_cast<volatile int*>(host)[i]; }
  void write(int i, int value) { static_cast<volatile int*>(host)[i] = value; }

  int* host = nullptr;
  int* device = nullptr;
};

TEST_CASE("replays end beside a kernel that does not, where it leaves room for one cluster") {
  constexpr int kReplays = 1000;
  ai::CaptureOptions options = gpu::measured();
  options.cooperative_launches = false;
  for (const ChainSpec& spec : gpu::hammered_chains()) {
    CAPTURE(gpu::to_string(spec));
    DeviceChain chain(spec, options);
    chain.run();
    CHECK(chain.verdict().faults == "");
    chain.reset();
    const Images images(chain.executable, chain.arena);
    Hammer hammer;
    Mapped mapped;
    const OwnStream other;
    const OwnStream stream;
    // Loading a kernel may wait for those that run: all of ours are loaded by now.
    REQUIRE(hammered(chain, images, hammer, stream, 100, 10.0) == 100);
    gpu::Occupation occupation;
    gpu::require_done(gpu::enqueue_occupation(mapped.device, mapped.device + 1, 120'000'000'000,
                                              other.get(), occupation),
                      "the kernel that does not end");
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    while (mapped.read(1) < occupation.blocks && seconds() < 10) std::this_thread::yield();
    const int started = mapped.read(1);
    const int done = hammered(chain, images, hammer, stream, kReplays, 10.0);
    const bool is_running = cudaStreamQuery(other.get()) == cudaErrorNotReady;
    const double took = seconds();
    mapped.write(0, 1);  // before any check that may leave the scope
    CHECK(gpu::ends_within(other.get(), 10.0));
    CHECK(started == occupation.blocks);
    CHECK(is_running);
    CHECK(done == kReplays);
    CHECK(hammer.different() == 0);
    MESSAGE(done, " of ", kReplays, " replays in ", took, " s beside a kernel that holds ",
            occupation.blocks, " of ", occupation.multiprocessors, " multiprocessors, ",
            chain.summary());
  }
}

TEST_CASE("a cooperative kernel waits for room beside a kernel that does not end, then is right") {
  DeviceChain chain(gpu::plain_chain({479, 1024, 1024, 256, 3}, ai::ActKind::ReLU, 1));
  CHECK_MESSAGE(gpu::chosen_kernel(chain.executable) == "grid", gpu::run_lines(chain.executable));
  chain.run();
  chain.reset();
  Mapped mapped;
  const OwnStream other;
  const OwnStream stream;
  gpu::Occupation occupation;
  gpu::require_done(gpu::enqueue_occupation(mapped.device, mapped.device + 1, 20'000'000'000,
                                            other.get(), occupation),
                    "the kernel that does not end");
  while (mapped.read(1) < occupation.blocks && cudaStreamQuery(other.get()) == cudaErrorNotReady)
    std::this_thread::yield();
  REQUIRE(chain.executable.launch(stream.get()).ok());
  const bool ended_beside = gpu::ends_within(stream.get(), 0.5);
  mapped.write(0, 1);  // before any check that may leave the scope
  CHECK(gpu::ends_within(other.get(), 10.0));
  CHECK_FALSE(ended_beside);
  CHECK(gpu::ends_within(stream.get(), 10.0));
  REQUIRE(chain.executable.wait().ok());
  chain.arena.download(chain.now);
  CHECK(chain.verdict().faults == "");
}

}  // namespace
