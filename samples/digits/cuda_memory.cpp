#include <cuda_runtime_api.h>

#include <string>

#include "memory.hpp"

namespace digits {
namespace {

class CudaMemory final : public Memory {
 public:
  CudaMemory() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~CudaMemory() override {
    for (float* block : blocks_) (void)cudaFree(block);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  float* allocate(std::size_t count) override {
    void* block = nullptr;
    if (!check(cudaMalloc(&block, count * sizeof(float)))) return nullptr;
    blocks_.push_back(static_cast<float*>(block));
    zero(blocks_.back(), count);
    return blocks_.back();
  }
  // The source is pageable: the call returns once it has been staged, so it may die at once.
  void upload(float* to, const std::vector<float>& from) override {
    transfer(to, from.data(), from.size(), cudaMemcpyHostToDevice);
  }
  std::vector<float> download(const float* from, std::size_t count) override {
    std::vector<float> values(count);
    transfer(values.data(), from, count, cudaMemcpyDeviceToHost);
    if (status().ok()) check(cudaStreamSynchronize(stream_));
    return values;
  }
  void copy(float* to, const float* from, std::size_t count) override {
    transfer(to, from, count, cudaMemcpyDeviceToDevice);
  }
  void zero(float* to, std::size_t count) override {
    if (status().ok()) check(cudaMemsetAsync(to, 0, count * sizeof(float), stream_));
  }
  ai::Stream stream() const override { return stream_; }
  ai::Target target() const override { return ai::Target::CUDA; }

 private:
  void transfer(float* to, const float* from, std::size_t count, cudaMemcpyKind kind) {
    if (status().ok()) check(cudaMemcpyAsync(to, from, count * sizeof(float), kind, stream_));
  }
  bool check(cudaError_t error) {
    if (error != cudaSuccess) fail({ai::StatusCode::CudaError, cudaGetErrorString(error)});
    return status().ok();
  }

  cudaStream_t stream_ = nullptr;
  std::vector<float*> blocks_;
};

}  // namespace

std::unique_ptr<Memory> make_cuda_memory() {
  return std::make_unique<CudaMemory>();
}

}  // namespace digits
