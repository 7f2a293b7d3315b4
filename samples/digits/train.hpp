#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dataset.hpp"
#include "network.hpp"

namespace digits {

/// Where the shuffled examples of one epoch lie, in mini-batches of kBatch.
struct Epoch {
  Epoch(Memory& memory, int examples);
  int batches;
  float* images;
  float* targets;
};

struct TrainOptions {
  int epochs = 60;
  std::uint32_t seed = 1;
  /// Called after each epoch with its number (from 1) and its mean loss.
  std::function<void(int, float)> on_epoch = {};
};

/// Trains `network` from a fresh initialisation by replaying `step` over shuffled mini-batches (the
/// last, incomplete one of an epoch is left out). Returns the mean loss of each epoch.
[[nodiscard]] ai::Result<std::vector<float>> train(Memory& memory, Network& network,
                                                   ai::Executable& step, const Epoch& epoch,
                                                   const Examples& examples,
                                                   const TrainOptions& options);

/// The share of `examples` whose largest logit is at their class.
[[nodiscard]] ai::Result<double> accuracy(Memory& memory, Network::Inference& inference,
                                          const Examples& examples);

}  // namespace digits
