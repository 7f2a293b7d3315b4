#pragma once

#include <string>
#include <vector>

#include "ai/gemm.hpp"

namespace bench {

enum class Mode {
  Forward,          ///< inference: the Y of every layer, no Z
  ForwardBackward,  ///< gY of the last layer is given; all gradients but that of the input
  TrainStep,        ///< forward, loss gradient, backward, SGD
};

/// One network to measure in one mode: layer l computes Y[batch, layers[l+1]] = act(X W + b), the
/// last one without an activation.
struct Row {
  std::string workload;
  std::vector<int> layers;  ///< widths, the input's first
  ai::ActKind activation = ai::ActKind::None;
  int batch = 1;
  Mode mode = Mode::Forward;

  [[nodiscard]] int depth() const { return static_cast<int>(layers.size()) - 1; }
  [[nodiscard]] ai::ActKind activation_of(int layer) const {
    return layer + 1 < depth() ? activation : ai::ActKind::None;
  }
  [[nodiscard]] bool has_backward() const { return mode != Mode::Forward; }
  bool operator==(const Row&) const = default;
};

inline constexpr float kLearningRate = 1e-4F;
/// Copies of the step in the long graph, whose time less that of the short one gives the slope.
inline constexpr int kManyCopies = 32;

}  // namespace bench
