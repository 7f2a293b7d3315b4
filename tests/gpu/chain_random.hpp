#pragma once

#include <cstdint>
#include <iterator>
#include <random>

#include "chain_network.hpp"
#include "support/cases.hpp"

namespace gpu {

/// What a random network has at most.
struct ChainExtent {
  std::int64_t layers = 10;
  std::int64_t width = 600;
  std::int64_t batch = 80;
  /// Every octave of widths (1, 2 to 3, 4 to 7, ...) is as likely as any other that lies below
  /// `width` as a whole. Else every width is, so that most are large.
  bool has_octaves = false;
};

/// The network of a seed, the same on every platform: evenly drawn depth and batch; any activation
/// and kind of bias; now and then Z, a hidden Y, alpha, transposes, padded rows, strided biases and
/// bases that are aligned to no more than 4 bytes.
[[nodiscard]] inline ChainSpec random_chain(std::uint32_t seed, const ChainExtent& most = {}) {
  std::mt19937 engine(seed);
  const auto up_to = [&](std::int64_t limit) {
    return 1 + static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(limit));
  };
  const auto width = [&] {
    if (!most.has_octaves) return up_to(most.width);
    std::int64_t octaves = 0;
    while ((most.width >> octaves) != 0) ++octaves;
    for (;;) {
      const std::int64_t least = std::int64_t{1} << (up_to(octaves) - 1);
      const std::int64_t drawn = least - 1 + up_to(least);
      if (drawn <= most.width) return drawn;
    }
  };
  const auto one_in = [&](std::uint32_t count) { return engine() % count == 0; };
  ChainSpec spec;
  spec.seed = seed;
  const std::int64_t depth = up_to(most.layers);
  spec.batch = up_to(most.batch);
  spec.inputs = width();
  spec.trans_a = one_in(8);
  if (one_in(3)) spec.pad = up_to(5);
  if (one_in(3)) spec.offset = up_to(3);
  for (std::int64_t l = 0; l < depth; ++l) {
    ChainLayer layer;
    layer.width = width();
    layer.bias = support::kBiasKinds[engine() % std::size(support::kBiasKinds)];
    layer.act = support::kActs[engine() % std::size(support::kActs)];
    layer.with_z = one_in(3);
    layer.is_hidden = one_in(2) && l + 1 < depth;
    layer.trans_b = one_in(4);
    if (one_in(6)) layer.alpha = one_in(2) ? 0.5F : -1.25F;
    if (one_in(3)) layer.slope = -0.3F;
    if (one_in(3)) layer.pad = up_to(5);
    if (one_in(3)) layer.offset = up_to(3);
    if (one_in(6)) layer.bias_stride = 2;
    spec.layers.push_back(layer);
  }
  return spec;
}

}  // namespace gpu
