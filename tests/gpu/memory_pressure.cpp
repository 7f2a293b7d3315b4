// A2: what happens where device memory runs out. The first case must stay the first: it finds a
// process that has loaded nothing yet.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gradient_layer.hpp"
#include "layer.hpp"

namespace {

using gpu::GradientLayer;
using gpu::OwnStream;

/// Takes device memory until about 8 MiB are free.
class FilledDevice {
 public:
  FilledDevice() {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    for (std::size_t bytes = std::size_t{16} << 30; bytes >= kGrain; bytes /= 2) {
      while (free_bytes() >= bytes + kLeft) {
        void* block = nullptr;
        if (cudaMalloc(&block, bytes) != cudaSuccess) {
          (void)cudaGetLastError();
          break;
        }
        blocks_.push_back(block);
      }
    }
    // Whatever cudaMemGetInfo says: what the cases ask for is not to be had.
    void* block = nullptr;
    const cudaError_t error = cudaMalloc(&block, std::size_t{64} << 20);
    (void)cudaGetLastError();
    if (block != nullptr) blocks_.push_back(block);
    CAPTURE(free_bytes());
    REQUIRE(error == cudaErrorMemoryAllocation);
  }
  ~FilledDevice() {
    for (void* block : blocks_) (void)cudaFree(block);
  }
  FilledDevice(const FilledDevice&) = delete;
  FilledDevice& operator=(const FilledDevice&) = delete;

  [[nodiscard]] static std::size_t free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    return free;
  }

 private:
  static constexpr std::size_t kLeft = std::size_t{8} << 20;
  static constexpr std::size_t kGrain = std::size_t{2} << 20;
  std::vector<void*> blocks_;
};

/// Two layers with 64 MiB between them, over operands of 1 MiB: Y = (A B) C with A of 0.5, B of 2
/// and C of 1/64, so that each element is kInner * kWide / 64.
class WideInside {
 public:
  static constexpr int kRows = 4096, kInner = 16, kWide = 4096, kCols = 8;
  static constexpr std::size_t kHiddenBytes = std::size_t{kRows} * kWide * sizeof(float);

  ~WideInside() {
    for (float* data : {a_, b_, c_, y_}) (void)cudaFree(data);
  }
  WideInside() = default;
  WideInside(const WideInside&) = delete;
  WideInside& operator=(const WideInside&) = delete;

  [[nodiscard]] ai::Program program() const {
    ai::TensorDesc desc;
    desc.shape = {kRows, kWide};
    ai::Program program;
    const auto hidden = program.temporary(desc);
    REQUIRE_MESSAGE(hidden.ok(), hidden.status().to_string());
    const auto first = ai::plan_forward({.A = ai::make_tensor_2d(a_, {kRows, kInner}),
                                         .B = ai::make_tensor_2d(b_, {kInner, kWide}),
                                         .Y = *hidden});
    const auto second = ai::plan_forward({.A = *hidden,
                                          .B = ai::make_tensor_2d(c_, {kWide, kCols}),
                                          .Y = ai::make_tensor_2d(y_, {kRows, kCols})});
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    REQUIRE(program.add(*first).ok());
    REQUIRE(program.add(*second).ok());
    return program;
  }
  /// What the executable writes, from NaN; empty if it is right.
  [[nodiscard]] std::string wrong_after(ai::Executable& executable) const {
    constexpr std::size_t kCount = std::size_t{kRows} * kCols;
    REQUIRE(cudaMemset(y_, 0xFF, kCount * sizeof(float)) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    ai::Status status = executable.launch();
    if (status.ok()) status = executable.wait();
    if (!status.ok()) return status.to_string();
    for (const float value : gpu::download(y_, kCount)) {
      if (value != kInner * kWide / 64.0F) return "an element is " + std::to_string(value);
    }
    return {};
  }

 private:
  float* a_ = gpu::device_buffer(std::vector<float>(std::size_t{kRows} * kInner, 0.5F));
  float* b_ = gpu::device_buffer(std::vector<float>(std::size_t{kInner} * kWide, 2.0F));
  float* c_ = gpu::device_buffer(std::vector<float>(std::size_t{kWide} * kCols, 1.0F / 64));
  float* y_ = gpu::device_buffer(std::vector<float>(std::size_t{kRows} * kCols, 0.0F));
};

void check_capture_on_full_device() {
  const WideInside layers;
  const ai::Program program = layers.program();
  {
    const FilledDevice full;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const ai::Status status = ai::capture(program, gpu::kQuick).status();
      CHECK_MESSAGE(status.code() == ai::StatusCode::OutOfMemory, status.to_string());
      CHECK(cudaGetLastError() == cudaSuccess);
    }
  }
  ai::Executable executable = gpu::captured(program);
  CHECK(executable.workspace_bytes() >= WideInside::kHiddenBytes);
  for (const ai::Node& node : executable.nodes()) {
    CAPTURE(node.name);
    CHECK((node.kind == "kernel" || node.kind == "memset"));  // no memory of the graph's own
  }
  CHECK(layers.wrong_after(executable) == "");
  // What is captured needs no more memory.
  const FilledDevice full;
  for (int i = 0; i < 10; ++i) CHECK(layers.wrong_after(executable) == "");
}

TEST_CASE(
    "A2: the first capture of a process finds a full device: OutOfMemory, and then it works") {
  check_capture_on_full_device();
}

TEST_CASE(
    "A2: a capture on a full device is OutOfMemory, and the same one works when memory is freed") {
  check_capture_on_full_device();
}

TEST_CASE(
    "A2: a direct call on a full device is OutOfMemory, and the same one works when it is freed") {
  const GradientLayer layer(4096, 4096, 16);  // 64 MiB of scratch
  const OwnStream stream;
  // Unknown at first, then known, so that scratch alone is missing.
  for (const bool is_known : {false, true}) {
    CAPTURE(is_known);
    ai::gemm::clear_plan_cache();
    if (is_known) {
      REQUIRE(ai::gemm::backward(layer.call(), stream.get()).ok());
      REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    }
    const OwnStream other;  // one that has no scratch yet
    {
      const FilledDevice full;
      const ai::Status status = ai::gemm::backward(layer.call(), other.get());
      CHECK_MESSAGE(status.code() == ai::StatusCode::OutOfMemory, status.to_string());
      CHECK(cudaGetLastError() == cudaSuccess);
      CHECK(cudaStreamSynchronize(other.get()) == cudaSuccess);
      if (is_known) {  // the stream that has scratch goes on
        layer.clear();
        CHECK(ai::gemm::backward(layer.call(), stream.get()).ok());
        CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
        CHECK(layer.wrong() == "");
      }
    }
    layer.clear();
    const ai::Status again = ai::gemm::backward(layer.call(), other.get());
    CHECK_MESSAGE(again.ok(), again.to_string());
    REQUIRE(cudaStreamSynchronize(other.get()) == cudaSuccess);
    CHECK(layer.wrong() == "");
  }
  ai::gemm::clear_plan_cache();
}

TEST_CASE("A2: a direct call in the caller's capture on a full device leaves that capture intact") {
  const GradientLayer layer(4096, 4096, 16);
  const OwnStream stream;
  ai::gemm::clear_plan_cache();
  cudaGraph_t graph = nullptr;
  {
    const FilledDevice full;
    REQUIRE(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    const ai::Status status = ai::gemm::backward(layer.call(), stream.get());
    CHECK_MESSAGE(status.code() == ai::StatusCode::OutOfMemory, status.to_string());
    REQUIRE(cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess);
    std::size_t nodes = 1;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
    CHECK(nodes == 0);
    (void)cudaGraphDestroy(graph);
  }
  REQUIRE(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  const ai::Status again = ai::gemm::backward(layer.call(), stream.get());
  CHECK_MESSAGE(again.ok(), again.to_string());
  REQUIRE(cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  layer.clear();
  REQUIRE(cudaGraphLaunch(exec, stream.get()) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(layer.wrong() == "");
  (void)cudaGraphExecDestroy(exec);
  (void)cudaGraphDestroy(graph);
  ai::gemm::clear_plan_cache();
}

}  // namespace
