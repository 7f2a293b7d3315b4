#include <algorithm>

#include "memory.hpp"

namespace digits {
namespace {

class HostMemory final : public Memory {
 public:
  float* allocate(std::size_t count) override {
    blocks_.push_back(std::make_unique<float[]>(count));
    return blocks_.back().get();
  }
  void upload(float* to, const std::vector<float>& from) override {
    std::copy(from.begin(), from.end(), to);
  }
  std::vector<float> download(const float* from, std::size_t count) override {
    return {from, from + count};
  }
  void copy(float* to, const float* from, std::size_t count) override {
    std::copy_n(from, count, to);
  }
  void zero(float* to, std::size_t count) override { std::fill_n(to, count, 0.0F); }
  ai::Stream stream() const override { return nullptr; }
  ai::Target target() const override { return ai::Target::Host; }

 private:
  std::vector<std::unique_ptr<float[]>> blocks_;
};

}  // namespace

std::unique_ptr<Memory> make_host_memory() {
  return std::make_unique<HostMemory>();
}

#if !defined(DIGITS_WITH_CUDA)
std::unique_ptr<Memory> make_cuda_memory() {
  return nullptr;
}
#endif

}  // namespace digits
