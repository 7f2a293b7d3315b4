#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "ai/backend.hpp"
#include "ai/gemm.hpp"

/// What the checks and the measurements of gradient_bench share: memory, scratch for symbolic
/// addresses, candidates captured into a graph, and one description of a call.
namespace gradient_bench {

using namespace ai;

inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

inline void check(const Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.to_string().c_str());
  std::exit(1);
}

inline int g_failures = 0;  ///< wrong results so far
/// Whether scratch is NaN before its first use. Not under initcheck, which must see a kernel that
/// reads it unwritten.
inline bool g_fill_scratch = true;

inline void fail(const std::string& message) {
  if (++g_failures <= 20) std::printf("WRONG %s\n", message.c_str());
}

/// Seeded and fast: a roughly normal number of the given deviation.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }
  std::uint64_t below(std::uint64_t n) { return (bits() >> 20U) % n; }
  float normal(float deviation) {
    const std::uint64_t b = bits();
    std::int64_t sum = 0;  // of four 16-bit numbers
    for (unsigned shift = 0; shift < 64; shift += 16) {
      sum += static_cast<std::int64_t>(b >> shift & 0xFFFFU) - 0x8000;
    }
    return static_cast<float>(sum) * (deviation / 37837.0F);
  }

 private:
  std::uint64_t state_;
};

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A strided f32 matrix, on the host and on the device, `offset` floats past a 256-byte boundary.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols, std::int64_t ld, std::int64_t offset)
      : rows_(rows), cols_(cols), ld_(ld), offset_(offset) {
    host_.assign(static_cast<std::size_t>(offset + rows * ld + 8), kNaN);
    check(cudaMalloc(&device_, host_.size() * sizeof(float)), "cudaMalloc");
  }
  ~Matrix() { cudaFree(device_); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  float& at(std::int64_t r, std::int64_t c) {
    return host_[static_cast<std::size_t>(offset_ + r * ld_ + c)];
  }
  [[nodiscard]] float* data() const { return device_ + offset_; }
  [[nodiscard]] std::int64_t ld() const { return ld_; }
  void upload() {
    check(cudaMemcpy(device_, host_.data(), host_.size() * sizeof(float), cudaMemcpyHostToDevice),
          "upload");
  }
  void download() {
    check(cudaMemcpy(host_.data(), device_, host_.size() * sizeof(float), cudaMemcpyDeviceToHost),
          "download");
  }
  template <typename F>
  void fill(F&& f) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < cols_; ++c) at(r, c) = f();
    }
  }
  /// Whether everything outside the elements is still the NaN it began as.
  [[nodiscard]] bool padding_intact() const {
    const auto all_nan = [&](std::int64_t from, std::int64_t to) {
      return std::all_of(host_.begin() + from, host_.begin() + to,
                         [](float x) { return std::isnan(x); });
    };
    if (!all_nan(0, offset_)) return false;
    for (std::int64_t r = 0; r < rows_; ++r) {
      if (!all_nan(offset_ + r * ld_ + cols_, offset_ + (r + 1) * ld_)) return false;
    }
    return all_nan(offset_ + rows_ * ld_, static_cast<std::int64_t>(host_.size()));
  }

 private:
  std::int64_t rows_, cols_, ld_, offset_;
  std::vector<float> host_;
  float* device_ = nullptr;
};

/// Device memory for every symbolic address that steps use.
class Scratch {
 public:
  ~Scratch() {
    for (void* p : owned_) cudaFree(p);
  }
  void add(const Candidate& candidate) {
    for (const auto& step : candidate.steps) {
      for (const MemoryRange& range : step->writes()) {
        if (!symbolic::is_symbolic(reinterpret_cast<void*>(range.begin))) continue;
        std::size_t& bytes = sizes_[range.begin];
        bytes = std::max(bytes, static_cast<std::size_t>(range.end() - range.begin));
      }
    }
  }
  void allocate() {
    for (const auto& [begin, bytes] : sizes_) {
      void* memory = nullptr;
      check(cudaMalloc(&memory, bytes), "cudaMalloc");
      if (g_fill_scratch) check(cudaMemset(memory, 0xFF, bytes), "cudaMemset");  // f32 or f64 NaN
      owned_.push_back(memory);
      map_.add(begin, bytes, memory);
    }
  }
  [[nodiscard]] AddressMap& map() { return map_; }

 private:
  std::map<std::uintptr_t, std::size_t> sizes_;
  std::vector<void*> owned_;
  AddressMap map_;
};

class Replay {
 public:
  Replay(const Candidate& candidate, const AddressMap& map, cudaStream_t stream) : stream_(stream) {
    for (const auto& step : candidate.steps) check(step->prepare(), step->name().c_str());
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
    for (const auto& step : candidate.steps) {
      check(step->enqueue(map, stream), step->name().c_str());
    }
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "end capture");
    check(cudaGraphInstantiate(&exec_, graph, 0), "instantiate");
    check(cudaGraphDestroy(graph), "destroy graph");
  }
  ~Replay() { cudaGraphExecDestroy(exec_); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  void launch() const { check(cudaGraphLaunch(exec_, stream_), "launch"); }
  /// After all copies and fills, whose stream does not order this one.
  void run() const {
    check(cudaDeviceSynchronize(), "synchronize");
    launch();
    check(cudaStreamSynchronize(stream_), "synchronize");
  }

 private:
  cudaGraphExec_t exec_ = nullptr;
  cudaStream_t stream_;
};

struct Shape {
  std::int64_t m, n;
  ActKind act = ActKind::ReLU;
  BiasKind kind = BiasKind::PerN;
  std::int64_t pad = 0;     ///< of every leading dimension
  std::int64_t offset = 0;  ///< floats past alignment
  std::int64_t bias_stride = 1;
  bool with_gc = false;
  bool accumulate = false;
  float beta = 0.0F;
  float slope = 0.01F;
  bool specials = false;  ///< NaN and infinities among the values
};

inline std::string text(const Shape& s, const Candidate& candidate) {
  char buffer[200];
  std::snprintf(buffer, sizeof(buffer), "[%lld,%lld] %s %s pad %lld offset %lld stride %lld%s%s %s",
                static_cast<long long>(s.m), static_cast<long long>(s.n), to_string(s.act),
                to_string(s.kind), static_cast<long long>(s.pad), static_cast<long long>(s.offset),
                static_cast<long long>(s.bias_stride), s.with_gc ? " gC" : "",
                s.accumulate ? " accumulate" : "", candidate.name.c_str());
  return buffer;
}

/// The call over given memory. A and B are empty: nothing here depends on K.
inline GemmPlan plan_of(const Shape& s, const Matrix& gy, const Matrix& z, const Matrix& gc,
                        const Matrix& bias) {
  static void* operands = nullptr;
  if (operands == nullptr) check(cudaMalloc(&operands, 8U << 20U), "cudaMalloc");
  const auto matrix = [&](const Matrix& m) {
    return make_tensor_2d(m.data(), {s.m, s.n}, DType::F32, Device::CUDA, 0, m.ld());
  };
  GemmBackward call;
  call.A = make_tensor_2d(operands, {s.m, 0});
  call.B = make_tensor_2d(operands, {0, s.n});
  call.gY = matrix(gy);
  if (s.act != ActKind::None) call.Z = matrix(z);
  const GradMode mode = s.accumulate ? GradMode::Accumulate : GradMode::Overwrite;
  if (s.with_gc) {
    call.C = matrix(gy);  // described, never read
    call.gC = Gradient(matrix(gc), mode);
  }
  if (s.kind == BiasKind::Scalar) {
    call.gBias = Gradient(make_tensor_1d(bias.data(), 1), mode);
  } else if (s.kind == BiasKind::PerN) {
    Tensor t = make_tensor_1d(bias.data(), s.n, DType::F32, Device::CUDA, 0, s.bias_stride);
    call.gBias = Gradient(t, mode);
  } else if (s.kind == BiasKind::PerM) {
    call.gBias = Gradient(
        make_tensor_2d(bias.data(), {s.m, 1}, DType::F32, Device::CUDA, 0, s.bias_stride), mode);
  }
  if (s.kind == BiasKind::None && !s.with_gc)
    call.gA = Gradient(make_tensor_2d(operands, {s.m, 0}));
  call.attrs.act = s.act;
  call.attrs.beta = s.beta;
  call.attrs.leaky_slope = s.slope;
  const Result<GemmPlan> plan = plan_backward(call);
  check(plan.status(), "plan_backward");
  return *plan;
}
struct Fixture {
  explicit Fixture(const Shape& s)
      : gy(s.m, s.n, s.n + s.pad, s.offset),
        z(s.m, s.n, s.n + s.pad, s.offset),
        gc(s.m, s.n, s.n + s.pad, s.offset),
        bias(count(s), 1, s.bias_stride, s.offset),
        gz(s.m, s.n, s.n, 0) {}
  static std::int64_t count(const Shape& s) {
    return s.kind == BiasKind::PerN ? s.n : s.kind == BiasKind::PerM ? s.m : 1;
  }
  Matrix gy, z, gc, bias, gz;
};

}  // namespace gradient_bench
