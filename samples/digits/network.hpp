#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ai/ai.hpp"
#include "dataset.hpp"
#include "memory.hpp"

namespace digits {

constexpr std::array<int, 4> kWidths = {kPixels, 128, 64, kClasses};
constexpr int kLayers = 3;
constexpr int kBatch = 64;

/// The classifier 64-128-64-10 with ReLU, its parameters in one flat buffer, and what is captured
/// over them: one graph for a training step, one for inference at each batch size asked for.
/// Executables point at fixed buffers; new data is copied into these.
class Network {
 public:
  explicit Network(Memory& memory);

  /// Uniform He initialisation (He et al. 2015, arXiv:1502.01852), zero biases, fresh Adam state.
  void initialise(std::uint32_t seed);

  /// Captures forward, loss, backward and update as one executable over train_images() and
  /// train_targets(), [kBatch, kPixels] and [kBatch, kClasses].
  [[nodiscard]] ai::Result<ai::Executable> capture_training_step();
  [[nodiscard]] float* train_images() const { return activations_[0]; }
  [[nodiscard]] float* train_targets() const { return targets_; }
  /// Sum of the batches' mean losses since it was last zeroed, one float.
  [[nodiscard]] float* loss() const { return loss_; }

  /// A forward pass over its own buffers.
  struct Inference {
    int batch;
    float* images;  ///< [batch, kPixels]
    float* logits;  ///< [batch, kClasses]
    ai::Executable executable;
  };
  [[nodiscard]] ai::Result<Inference> capture_inference(int batch);

 private:
  [[nodiscard]] ai::Tensor weight(float* base, int layer) const;
  [[nodiscard]] ai::Tensor bias(float* base, int layer) const;

  Memory& memory_;
  int parameter_count_ = 0;
  std::array<int, kLayers> weight_offset_{};
  std::array<int, kLayers> bias_offset_{};
  float* parameters_ = nullptr;
  float* gradients_ = nullptr;
  float* first_moment_ = nullptr;
  float* second_moment_ = nullptr;
  float* adam_state_ = nullptr;
  std::array<float*, kLayers + 1> activations_{};
  float* targets_ = nullptr;
  float* loss_ = nullptr;
};

}  // namespace digits
