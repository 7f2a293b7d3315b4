#pragma once

#include <cuda_runtime.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ai/ai.hpp"
#include "support/cases.hpp"
#include "support/compare.hpp"

namespace gpu {

/// The operands of one case in device memory, and what they must hold after its call. Without
/// assertions: also for programs without a test framework.
template <typename Data>
class Placed {
 public:
  explicit Placed(const support::Case& spec)
      : data_(spec), fresh_(data_), expected_(expectation(data_.call())) {}
  ~Placed() {
    for (const auto& [buffer, copy] : copies_) (void)cudaFree(copy);
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  /// Device memory for every operand; contents undefined.
  [[nodiscard]] cudaError_t allocate() {
    cudaError_t error = cudaSuccess;
    data_.for_each([&](const char*, support::Buffer& buffer, bool) {
      void*& copy = copies_[&buffer];
      if (error == cudaSuccess && copy == nullptr) error = cudaMalloc(&copy, buffer.raw_bytes());
    });
    return error;
  }
  /// Inputs filled, outputs poisoned (or, to be accumulated into, filled), on the device when this
  /// returns.
  [[nodiscard]] cudaError_t upload() {
    data_ = fresh_;
    cudaError_t error = allocate();
    data_.for_each([&](const char*, support::Buffer& buffer, bool) {
      if (error != cudaSuccess) return;
      error = cudaMemcpy(copies_.at(&buffer), buffer.raw().data(), buffer.raw_bytes(),
                         cudaMemcpyHostToDevice);
    });
    return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
  }
  /// The call over device memory.
  [[nodiscard]] auto call() const {
    support::Place place;
    place.device = ai::Device::CUDA;
    place.base = [this](const support::Buffer& buffer) { return copies_.at(&buffer); };
    return data_.call(place);
  }
  /// Why the device does not hold what one call makes of what upload() put there; empty if it does.
  /// What writes it has ended.
  [[nodiscard]] std::string wrong() {
    cudaError_t error = cudaSuccess;
    data_.for_each([&](const char*, support::Buffer& buffer, bool) {
      if (error != cudaSuccess) return;
      error = cudaMemcpy(buffer.raw().data(), copies_.at(&buffer), buffer.raw_bytes(),
                         cudaMemcpyDeviceToHost);
    });
    if (error != cudaSuccess) return cudaGetErrorString(error);
    return differences(data_, expected_) + damage();
  }

 private:
  [[nodiscard]] static oracle::Forward expectation(const ai::GemmForward& call) {
    return oracle::forward(call);
  }
  [[nodiscard]] static oracle::Backward expectation(const ai::GemmBackward& call) {
    return oracle::backward(call);
  }
  using Expected = decltype(expectation(std::declval<Data&>().call()));

  [[nodiscard]] static std::string difference(const char* name, const oracle::Table& expected,
                                              const std::optional<support::Buffer>& given) {
    if (!given) return {};
    const std::string text = support::difference(name, expected, *given);
    return text.empty() ? text : text + "; ";
  }
  [[nodiscard]] static std::string differences(const support::ForwardData& data,
                                               const oracle::Forward& expected) {
    return difference("Y", expected.y, data.y) + difference("Z", expected.z, data.z);
  }
  [[nodiscard]] static std::string differences(const support::BackwardData& data,
                                               const oracle::Backward& expected) {
    return difference("gA", expected.ga, data.ga) + difference("gB", expected.gb, data.gb) +
           difference("gC", expected.gc, data.gc) + difference("gBias", expected.gbias, data.gbias);
  }
  /// Names what was written beside the outputs.
  [[nodiscard]] std::string damage() {
    std::map<std::string, const support::Buffer*> before;
    fresh_.for_each(
        [&](const char* name, support::Buffer& buffer, bool) { before[name] = &buffer; });
    std::string text;
    data_.for_each([&](const char* name, support::Buffer& buffer, bool is_output) {
      const bool is_kept =
          is_output ? buffer.canaries_are_intact() : buffer.has_same_bits(*before.at(name));
      if (!is_kept) text += std::string(name) + " was written where it must not be; ";
    });
    return text;
  }

  Data data_;
  Data fresh_;
  Expected expected_;
  std::map<const support::Buffer*, void*> copies_;
};

using PlacedForward = Placed<support::ForwardData>;
using PlacedBackward = Placed<support::BackwardData>;

/// A layer as networks have them, forward and backward; the backward call needs scratch.
[[nodiscard]] inline support::Case layer_case() {
  support::Case c{33, 65, 57, ai::BiasKind::PerN, ai::ActKind::SiLU};
  c.with_z = true;
  return c;
}

/// The direct path by the type of the call.
[[nodiscard]] inline ai::Status direct(const ai::GemmForward& call, ai::Stream stream) {
  return ai::gemm::forward(call, stream);
}
[[nodiscard]] inline ai::Status direct(const ai::GemmBackward& call, ai::Stream stream) {
  return ai::gemm::backward(call, stream);
}
/// A program of the one call.
[[nodiscard]] inline ai::Result<ai::Program> program_of(const ai::Result<ai::GemmPlan>& plan) {
  if (!plan.ok()) return plan.status();
  ai::Program program;
  AI_RETURN_IF_ERROR(program.add(*plan));
  return program;
}
[[nodiscard]] inline ai::Result<ai::Program> program_of(const ai::GemmForward& call) {
  return program_of(ai::plan_forward(call));
}
[[nodiscard]] inline ai::Result<ai::Program> program_of(const ai::GemmBackward& call) {
  return program_of(ai::plan_backward(call));
}

}  // namespace gpu
