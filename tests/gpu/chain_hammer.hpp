#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "chain_device.hpp"
#include "chain_kernels.hpp"
#include "chain_random.hpp"

namespace gpu {

/// Device memory of words, freed at the end of a scope.
class Words {
 public:
  explicit Words(std::size_t count) {
    require_done(cudaMalloc(&data_, count * sizeof(unsigned)), "memory for an image");
  }
  ~Words() { (void)cudaFree(data_); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  [[nodiscard]] unsigned* get() const { return data_; }

 private:
  unsigned* data_ = nullptr;
};

/// The whole arena of a network before a replay and as a replay has to leave it, on the device:
/// outputs, inputs and what is beside them.
class Images {
 public:
  /// Of one replay of `executable` over `arena`, from the values that lie there now. The arena is
  /// put back.
  Images(ai::Executable& executable, const Arena& arena)
      : before_(arena.count()), after_(arena.count()), count_(arena.count()) {
    copy(before_.get(), arena.words());
    replay(executable);
    copy(after_.get(), arena.words());
    copy(arena.words(), before_.get());
  }
  [[nodiscard]] const unsigned* before() const { return before_.get(); }
  [[nodiscard]] const unsigned* after() const { return after_.get(); }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  void copy(unsigned* to, const unsigned* from) {
    require_done(cudaMemcpy(to, from, count_ * sizeof(unsigned), cudaMemcpyDeviceToDevice),
                 "copy of an arena");
    require_done(cudaDeviceSynchronize(), "copy of an arena");
  }

  Words before_;
  Words after_;
  std::size_t count_;
};

/// Replays again and again, and compares every word on the device after each; then the arena is put
/// back, so that a replay that writes nothing is found out. All in stream order.
class Hammer {
 public:
  Hammer() {
    require_done(cudaMalloc(&found_, sizeof *found_), "memory for a count");
    require_done(cudaMemset(found_, 0, sizeof *found_), "clearing a count");
    require_done(cudaStreamSynchronize(nullptr), "clearing a count");
  }
  ~Hammer() { (void)cudaFree(found_); }
  Hammer(const Hammer&) = delete;
  Hammer& operator=(const Hammer&) = delete;

  [[nodiscard]] bool enqueue(ai::Executable& executable, const Arena& arena, const Images& images,
                             cudaStream_t stream) {
    return executable.launch(stream).ok() && enqueue_compare(arena, images, stream);
  }
  /// The second part of that alone.
  [[nodiscard]] bool enqueue_compare(const Arena& arena, const Images& images,
                                     cudaStream_t stream) {
    return enqueue_compare_and_reset(arena.words(), images.after(), images.before(), images.count(),
                                     found_, stream) == cudaSuccess;
  }
  /// Words that differed so far. Waits for the device.
  [[nodiscard]] unsigned long long different() const {
    unsigned long long found = 0;
    require_done(cudaDeviceSynchronize(), "replays");
    require_done(cudaMemcpy(&found, found_, sizeof found, cudaMemcpyDeviceToHost), "a count");
    return found;
  }

 private:
  unsigned long long* found_ = nullptr;
};

/// Whether all work on `stream` ends within `seconds`.
[[nodiscard]] inline bool ends_within(cudaStream_t stream, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds)
      return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

/// Small, middle and large ones; some with hidden Ys, one laid out at random. The first four are
/// for kernels whose blocks wait for others of their cluster at most, the last three for the whole
/// grid, for tiles of it, and for many rows.
[[nodiscard]] inline std::vector<ChainSpec> hammered_chains() {
  return {hidden(plain_chain({64, 256, 256, 8}, ai::ActKind::ReLU, 1)),
          plain_chain({64, 64, 64, 8}, ai::ActKind::Tanh, 64),
          hidden(plain_chain({235, 512, 256, 128, 12}, ai::ActKind::ELU, 64)),
          random_chain(77, {.layers = 6, .width = 200, .batch = 40, .has_octaves = true}),
          hidden(plain_chain({479, 1024, 1024, 256, 3}, ai::ActKind::ReLU, 1)),
          plain_chain({235, 1024, 1024, 64}, ai::ActKind::GELUTanh, 128),
          plain_chain({64, 64, 64, 63}, ai::ActKind::ReLU, 16411)};
}

}  // namespace gpu
