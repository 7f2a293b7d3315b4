#pragma once

#include <string>
#include <vector>

#include "kernels/chain_shapes.hpp"

namespace chain_test {

using ai::kernels::chain::Layer;
using ai::kernels::chain::Machine;
using ai::kernels::chain::Network;
using ai::kernels::chain::Shape;

/// An H200, and an A100: without clusters.
inline Machine hopper() {
  return {{227 << 10, 255, 16}, 132, 1.98e9, 5.5e12};
}
inline Machine ampere() {
  return {{163 << 10, 255, 1}, 108, 1.41e9, 4e12};
}

/// A packed network with a bias a column in each layer; the last layer has no activation.
inline Network network(const std::vector<int>& widths, ai::ActKind act, int rows) {
  Network network;
  network.input = {rows, widths.front(), 1};
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    Layer layer;
    layer.k = widths[l];
    layer.n = widths[l + 1];
    layer.w_k = layer.n;
    layer.w_n = 1;
    layer.act = l + 2 < widths.size() ? act : ai::ActKind::None;
    layer.has_bias = true;
    layer.bias_n = 1;
    layer.writes_y = true;
    layer.y_m = layer.n;
    network.layers.push_back(layer);
  }
  return network;
}

/// A layer of every activation, odd widths, every kind of bias in turn, transposed and padded
/// weights, Z and Y now and then.
inline Network every_feature(int rows) {
  const std::vector<int> widths = {7, 13, 1, 33, 5, 64, 9, 31, 2, 6};
  Network all = network(widths, ai::ActKind::None, rows);
  for (std::size_t l = 0; l < all.layers.size(); ++l) {
    Layer& layer = all.layers[l];
    layer.act = static_cast<ai::ActKind>(l);
    layer.slope = layer.act == ai::ActKind::LeakyReLU ? -0.25F : 0.0F;
    layer.alpha = l % 2 == 0 ? 1.0F : 0.7F;
    layer.has_bias = l % 4 != 0;
    layer.bias_n = l % 4 == 1 ? 2 : 0;
    layer.bias_m = l % 4 == 2 ? 3 : 0;
    if (l % 3 == 1) {
      layer.w_k = 1;
      layer.w_n = layer.k + 1;
    }
    layer.writes_y = l % 2 == 0 || l + 1 == all.layers.size();
    layer.y_m = layer.n + 1;
    layer.writes_z = l % 3 == 0;
    layer.z_m = layer.writes_z ? layer.n + 2 : 0;
  }
  return all;
}

inline std::string text_of(const Shape& shape) {
  return std::to_string(shape.slab) + " rows, " + std::to_string(shape.cluster) + " x " +
         std::to_string(shape.threads) + " threads, " + std::to_string(shape.columns) + " columns" +
         (shape.staged ? ", staged" : "") +
         (shape.window > 0 ? ", " + std::to_string(shape.window) + " ahead" : "");
}

}  // namespace chain_test
