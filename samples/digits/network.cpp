#include "network.hpp"

#include <cmath>
#include <random>

#include "steps.hpp"

namespace digits {
namespace {

ai::ActKind activation_of(int layer) {
  return layer + 1 < kLayers ? ai::ActKind::ReLU : ai::ActKind::None;
}

ai::Status add_forward(ai::Program& program, const ai::GemmForward& call) {
  const auto plan = ai::plan_forward(call);
  return plan.ok() ? program.add(*plan) : plan.status();
}

ai::Status add_backward(ai::Program& program, const ai::GemmBackward& call) {
  const auto plan = ai::plan_backward(call);
  return plan.ok() ? program.add(*plan) : plan.status();
}

}  // namespace

Network::Network(Memory& memory) : memory_(memory) {
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    weight_offset_[layer] = parameter_count_;
    parameter_count_ += kWidths[layer] * kWidths[layer + 1];
    bias_offset_[layer] = parameter_count_;
    parameter_count_ += kWidths[layer + 1];
  }
  const auto count = static_cast<std::size_t>(parameter_count_);
  parameters_ = memory_.allocate(count);
  gradients_ = memory_.allocate(count);
  first_moment_ = memory_.allocate(count);
  second_moment_ = memory_.allocate(count);
  adam_state_ = memory_.allocate(1);
  for (std::size_t layer = 0; layer <= kLayers; ++layer) {
    activations_[layer] = memory_.allocate(static_cast<std::size_t>(kBatch * kWidths[layer]));
  }
  targets_ = memory_.allocate(static_cast<std::size_t>(kBatch * kClasses));
  loss_ = memory_.allocate(1);
}

ai::Tensor Network::weight(float* base, int layer) const {
  const auto i = static_cast<std::size_t>(layer);
  return memory_.matrix(base + weight_offset_[i], kWidths[i], kWidths[i + 1]);
}

ai::Tensor Network::bias(float* base, int layer) const {
  const auto i = static_cast<std::size_t>(layer);
  return memory_.vector(base + bias_offset_[i], kWidths[i + 1]);
}

void Network::initialise(std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<std::size_t>(parameter_count_), 0.0F);
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const float limit = std::sqrt(6.0F / static_cast<float>(kWidths[layer]));
    std::uniform_real_distribution<float> uniform(-limit, limit);
    for (int i = weight_offset_[layer]; i < bias_offset_[layer]; ++i) {
      values[static_cast<std::size_t>(i)] = uniform(generator);
    }
  }
  memory_.upload(parameters_, values);
  memory_.zero(first_moment_, values.size());
  memory_.zero(second_moment_, values.size());
  memory_.zero(adam_state_, 1);
}

ai::Result<ai::Executable> Network::capture_training_step() {
  ai::Program program;
  std::array<ai::Tensor, kLayers + 1> y;   // y[i]: input of layer i
  std::array<ai::Tensor, kLayers + 1> gy;  // its gradient
  std::array<ai::Tensor, kLayers> z;
  for (int i = 0; i <= kLayers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    y[at] = memory_.matrix(activations_[at], kBatch, kWidths[at]);
    if (i == 0) continue;
    // Values that only this step needs: the library keeps them where it likes.
    const auto gradient = program.temporary(y[at].desc, memory_.device());
    const auto saved = program.temporary(y[at].desc, memory_.device());
    if (!gradient.ok()) return gradient.status();
    if (!saved.ok()) return saved.status();
    gy[at] = *gradient;
    z[at - 1] = *saved;
  }

  for (int i = 0; i < kLayers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool hidden = activation_of(i) != ai::ActKind::None;
    ai::GemmForward call{.A = y[at],
                         .B = weight(parameters_, i),
                         .bias = bias(parameters_, i),
                         .Y = y[at + 1],
                         .attrs = {.act = activation_of(i)}};
    if (hidden) call.Z = z[at];
    AI_RETURN_IF_ERROR(add_forward(program, call));
  }

  AI_RETURN_IF_ERROR(
      program.add(cross_entropy_step(y[kLayers], memory_.matrix(targets_, kBatch, kClasses),
                                     gy[kLayers], memory_.vector(loss_, 1))));

  for (int i = kLayers - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    const bool hidden = activation_of(i) != ai::ActKind::None;
    ai::GemmBackward call{.A = y[at],
                          .B = weight(parameters_, i),
                          .gY = gy[at + 1],
                          .gB = weight(gradients_, i),
                          .gBias = bias(gradients_, i),
                          .attrs = {.act = activation_of(i)}};
    if (hidden) call.Z = z[at];
    if (i > 0) call.gA = gy[at];
    AI_RETURN_IF_ERROR(add_backward(program, call));
  }

  AI_RETURN_IF_ERROR(program.add(adam_step(
      memory_.vector(parameters_, parameter_count_), memory_.vector(gradients_, parameter_count_),
      memory_.vector(first_moment_, parameter_count_),
      memory_.vector(second_moment_, parameter_count_), memory_.vector(adam_state_, 1))));
  return ai::capture(program);
}

ai::Result<Network::Inference> Network::capture_inference(int batch) {
  const auto rows = static_cast<std::size_t>(batch);
  float* images = memory_.allocate(rows * kPixels);
  float* logits = memory_.allocate(rows * kClasses);
  AI_RETURN_IF_ERROR(memory_.status());

  ai::Program program;
  ai::Tensor input = memory_.matrix(images, batch, kPixels);
  for (int i = 0; i < kLayers; ++i) {
    ai::Tensor output = memory_.matrix(logits, batch, kWidths[static_cast<std::size_t>(i) + 1]);
    if (i + 1 < kLayers) {
      const auto hidden = program.temporary(output.desc, memory_.device());
      if (!hidden.ok()) return hidden.status();
      output = *hidden;
    }
    AI_RETURN_IF_ERROR(add_forward(program, {.A = input,
                                             .B = weight(parameters_, i),
                                             .bias = bias(parameters_, i),
                                             .Y = output,
                                             .attrs = {.act = activation_of(i)}}));
    input = output;
  }
  auto executable = ai::capture(program);
  if (!executable.ok()) return executable.status();
  return Inference{batch, images, logits, std::move(*executable)};
}

}  // namespace digits
