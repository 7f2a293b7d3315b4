#include "steps.hpp"

#include <algorithm>
#include <cmath>

#include "dataset.hpp"

namespace digits {
namespace {

// A step's arguments from the tensors it is handed: never from captured pointers, so that the step
// follows wherever its tensors lie.
template <typename Args>
ai::UserStep make_step(const char* name, std::vector<ai::Tensor> reads,
                       std::vector<ai::Tensor> writes, Args (*unpack)(const ai::StepContext&)) {
  ai::UserStep step;
  step.name = name;
  step.reads = std::move(reads);
  step.writes = std::move(writes);
  step.host = [unpack](const ai::StepContext& context) {
    run_on_host(unpack(context));
    return ai::Status();
  };
#if defined(DIGITS_WITH_CUDA)
  step.cuda = [unpack](const ai::StepContext& context) {
    return run_on_cuda(unpack(context), context.stream);
  };
#endif
  return step;
}

float* floats(const ai::Tensor& tensor) {
  return static_cast<float*>(tensor.data);
}

}  // namespace

ai::UserStep cross_entropy_step(const ai::Tensor& logits, const ai::Tensor& targets,
                                const ai::Tensor& gradient, const ai::Tensor& loss) {
  return make_step<CrossEntropy>(
      "cross_entropy", {logits, targets, loss}, {gradient, loss}, [](const ai::StepContext& c) {
        return CrossEntropy{floats(c.reads[0]), floats(c.reads[1]), floats(c.writes[0]),
                            floats(c.writes[1]), static_cast<int>(c.reads[0].desc.shape[0])};
      });
}

ai::UserStep adam_step(const ai::Tensor& weights, const ai::Tensor& gradients,
                       const ai::Tensor& first_moment, const ai::Tensor& second_moment,
                       const ai::Tensor& state) {
  return make_step<Adam>(
      "adam", {gradients, weights, first_moment, second_moment, state},
      {weights, first_moment, second_moment, state}, [](const ai::StepContext& c) {
        return Adam{floats(c.writes[0]), floats(c.reads[0]),
                    floats(c.writes[1]), floats(c.writes[2]),
                    floats(c.writes[3]), static_cast<int>(c.reads[0].desc.shape[0])};
      });
}

void run_on_host(const CrossEntropy& args) {
  double loss = 0.0;
  for (int row = 0; row < args.batch; ++row) {
    const float* logits = args.logits + row * kClasses;
    const float* targets = args.targets + row * kClasses;
    float* gradient = args.gradient + row * kClasses;
    const float top = *std::max_element(logits, logits + kClasses);
    double sum = 0.0;
    for (int i = 0; i < kClasses; ++i) sum += std::exp(static_cast<double>(logits[i] - top));
    for (int i = 0; i < kClasses; ++i) {
      const double shifted = static_cast<double>(logits[i] - top);
      const double target = static_cast<double>(targets[i]);
      gradient[i] = static_cast<float>((std::exp(shifted) / sum - target) / args.batch);
      loss -= target * (shifted - std::log(sum));
    }
  }
  args.loss[0] += static_cast<float>(loss / args.batch);
}

void run_on_host(const Adam& args) {
  const float t = args.state[0] += 1.0F;
  const float correction1 = 1.0F - std::pow(kBeta1, t);
  const float correction2 = 1.0F - std::pow(kBeta2, t);
  for (int i = 0; i < args.count; ++i) {
    const float g = args.gradients[i];
    float& m = args.first_moment[i];
    float& v = args.second_moment[i];
    m = kBeta1 * m + (1.0F - kBeta1) * g;
    v = kBeta2 * v + (1.0F - kBeta2) * g * g;
    args.weights[i] -= kLearningRate * (m / correction1) / (std::sqrt(v / correction2) + kEpsilon);
  }
}

}  // namespace digits
