#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "bench/host_network.hpp"
#include "support/activation_oracle.hpp"

/// A contestant in host memory, so that the checker can be tried without a GPU.
namespace support {

/// What a step keeps besides y and the gradients of the parameters.
struct Keeps {
  bool z = true;
  bool gy = true;
  bool gz = false;
  /// Rounds each factor of a product as this says.
  std::function<double(double)> rounding = [](double value) { return value; };
};

inline float product(const bench::HostMatrix& a, const bench::HostMatrix& b, const Keeps& keeps,
                     int row, int col) {
  double sum = 0;
  for (int k = 0; k < a.cols; ++k)
    sum += keeps.rounding(a.at(row, k)) * keeps.rounding(b.at(k, col));
  return static_cast<float>(sum);
}

inline bench::HostMatrix transposed(const bench::HostMatrix& matrix) {
  bench::HostMatrix out{matrix.cols, matrix.rows, {}};
  for (int i = 0; i < matrix.cols; ++i) {
    for (int j = 0; j < matrix.rows; ++j) out.values.push_back(static_cast<float>(matrix.at(j, i)));
  }
  return out;
}

/// One step of `row`, each sum in f64 and rounded once to f32.
inline bench::HostNetwork run_step(const bench::Row& row, const Keeps& keeps = {}) {
  bench::HostNetwork net(row);
  const float poison = net.layers.front().y.values.front();
  const auto f = [](double value) { return static_cast<float>(value); };
  for (int l = 0; l < row.depth(); ++l) {
    auto& layer = net.layers[static_cast<std::size_t>(l)];
    for (int m = 0; m < row.batch; ++m) {
      for (int n = 0; n < layer.y.cols; ++n) {
        const auto at = static_cast<std::size_t>(m * layer.y.cols + n);
        layer.z.values[at] = product(net.input_of(l), layer.w, keeps, m, n) +
                             layer.b.values[static_cast<std::size_t>(n)];
        layer.y.values[at] =
            f(oracle::act(row.activation_of(l), static_cast<double>(layer.z.values[at]), 0.01));
      }
    }
  }
  if (row.has_backward()) {
    auto& last = net.layers.back();
    if (row.mode == bench::Mode::TrainStep) {
      for (std::size_t i = 0; i < last.y.count(); ++i) {
        last.gy.values[i] =
            2.0F / static_cast<float>(last.y.count()) * (last.y.values[i] - net.target.values[i]);
      }
    }
    for (int l = row.depth() - 1; l >= 0; --l) {
      auto& layer = net.layers[static_cast<std::size_t>(l)];
      for (std::size_t i = 0; i < layer.gz.count(); ++i) {
        layer.gz.values[i] =
            layer.gy.values[i] * f(oracle::act_slope(row.activation_of(l),
                                                     static_cast<double>(layer.z.values[i]), 0.01));
      }
      const bench::HostMatrix input = transposed(net.input_of(l));
      const bench::HostMatrix w = transposed(layer.w);
      for (int k = 0; k < layer.gw.rows; ++k) {
        for (int n = 0; n < layer.gw.cols; ++n) {
          layer.gw.values[static_cast<std::size_t>(k * layer.gw.cols + n)] =
              product(input, layer.gz, keeps, k, n);
        }
      }
      for (int n = 0; n < layer.gb.cols; ++n) {
        double sum = 0;
        for (int m = 0; m < row.batch; ++m) sum += layer.gz.at(m, n);
        layer.gb.values[static_cast<std::size_t>(n)] = f(sum);
      }
      if (l == 0) continue;
      auto& below = net.layers[static_cast<std::size_t>(l) - 1].gy;
      for (int m = 0; m < row.batch; ++m) {
        for (int k = 0; k < below.cols; ++k) {
          below.values[static_cast<std::size_t>(m * below.cols + k)] =
              product(layer.gz, w, keeps, m, k);
        }
      }
    }
  }
  for (std::size_t l = 0; l < net.layers.size(); ++l) {
    auto& layer = net.layers[l];
    const bool is_last = l + 1 == net.layers.size();
    if (row.mode == bench::Mode::TrainStep) {
      for (std::size_t i = 0; i < layer.w.count(); ++i)
        layer.w.values[i] -= bench::kLearningRate * layer.gw.values[i];
      for (std::size_t i = 0; i < layer.b.count(); ++i)
        layer.b.values[i] -= bench::kLearningRate * layer.gb.values[i];
    }
    if (!keeps.z || !row.has_backward()) layer.z.values.assign(layer.z.count(), poison);
    if (!keeps.gy && !is_last) layer.gy.values.assign(layer.gy.count(), poison);
    if (!keeps.gz) layer.gz.values.assign(layer.gz.count(), poison);
  }
  return net;
}

}  // namespace support
