#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "layer.hpp"
#include "lifecycle_kernels.hpp"

/// Looking after device memory: what is free, and what comes into the place of memory that was
/// freed too early.
namespace gpu {

/// A program that does nothing but fill a temporary of `bytes` with NaN. The temporary comes from
/// the library's own pool, as workspaces and scratch do.
inline ai::Program poisoning_program(std::size_t bytes) {
  ai::TensorDesc desc;
  desc.shape = {static_cast<std::int64_t>(bytes / sizeof(float))};
  ai::Program program;
  const auto target = program.temporary(desc);
  REQUIRE_MESSAGE(target.ok(), target.status().to_string());
  ai::UserStep poison;
  poison.name = "poison";
  poison.writes = {*target};
  poison.cuda = [bytes](const ai::StepContext& context) {
    return to_status(cudaMemsetAsync(context.writes[0].data, 0xFF, bytes, context.stream));
  };
  REQUIRE(program.add(std::move(poison)).ok());
  return program;
}

/// Device memory that is free once everything launched has ended, the direct path keeps nothing and
/// what was destroyed in flight has been given back, which the next capture and destruction do.
inline long long settled_free_bytes() {
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  ai::gemm::clear_plan_cache();
  (void)captured(poisoning_program(4096));
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  return static_cast<long long>(free);
}

/// Blocks of device memory full of 0xFF, which is NaN in f32. Whoever reads memory that was freed
/// too early finds NaN in its place; whoever writes it is found out by intact().
class Churn {
 public:
  Churn(int blocks, std::size_t bytes) : words_(bytes / sizeof(unsigned)) {
    for (int i = 0; i < blocks; ++i) {
      void* data = nullptr;
      REQUIRE(cudaMalloc(&data, bytes) == cudaSuccess);
      blocks_.push_back(static_cast<unsigned*>(data));
      REQUIRE(cudaMemset(data, 0xFF, bytes) == cudaSuccess);
    }
    REQUIRE(cudaMalloc(&found_, sizeof *found_) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  }
  ~Churn() {
    for (unsigned* block : blocks_) (void)cudaFree(block);
    (void)cudaFree(found_);
  }
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;

  /// Whether nobody has written to it. Nothing that might may be running.
  [[nodiscard]] bool intact() const {
    REQUIRE(cudaMemset(found_, 0, sizeof *found_) == cudaSuccess);
    for (const unsigned* block : blocks_) {
      REQUIRE(enqueue_count_other(block, words_, 0xFFFFFFFFU, found_, nullptr) == cudaSuccess);
    }
    unsigned long long found = 0;
    REQUIRE(cudaMemcpy(&found, found_, sizeof found, cudaMemcpyDeviceToHost) == cudaSuccess);
    return found == 0;
  }

 private:
  std::size_t words_;
  std::vector<unsigned*> blocks_;
  unsigned long long* found_ = nullptr;
};

}  // namespace gpu
