#pragma once

#include "ai/program.hpp"

namespace digits {

/// Softmax cross-entropy over a batch, as a step between forward and backward.
/// Reads logits and one-hot targets [batch, kClasses]; writes gradient = (softmax - targets) /
/// batch and adds the batch's mean loss to loss[0].
[[nodiscard]] ai::UserStep cross_entropy_step(const ai::Tensor& logits, const ai::Tensor& targets,
                                              const ai::Tensor& gradient, const ai::Tensor& loss);

/// Adam (Kingma & Ba 2015, arXiv:1412.6980, algorithm 1) over flat vectors of one length.
/// state = {t}: how many updates were made; the step counts it up.
[[nodiscard]] ai::UserStep adam_step(const ai::Tensor& weights, const ai::Tensor& gradients,
                                     const ai::Tensor& first_moment,
                                     const ai::Tensor& second_moment, const ai::Tensor& state);

constexpr float kLearningRate = 2e-3F;
constexpr float kBeta1 = 0.9F;
constexpr float kBeta2 = 0.999F;
constexpr float kEpsilon = 1e-8F;

struct CrossEntropy {
  const float* logits;
  const float* targets;
  float* gradient;
  float* loss;
  int batch;
};

struct Adam {
  float* weights;
  const float* gradients;
  float* first_moment;
  float* second_moment;
  float* state;
  int count;
};

void run_on_host(const CrossEntropy& args);
void run_on_host(const Adam& args);
// Enqueue; in builds without CUDA never called.
[[nodiscard]] ai::Status run_on_cuda(const CrossEntropy& args, ai::Stream stream);
[[nodiscard]] ai::Status run_on_cuda(const Adam& args, ai::Stream stream);

}  // namespace digits
