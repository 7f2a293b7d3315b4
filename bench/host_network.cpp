#include "host_network.hpp"

#include <algorithm>

#include "data.hpp"
#include "parallel.hpp"

namespace bench {
namespace {

HostMatrix poisoned(int rows, int cols) {
  HostMatrix matrix{rows, cols, {}};
  matrix.values.assign(matrix.count(), std::bit_cast<float>(kPoisonBits));
  return matrix;
}

HostMatrix filled(int rows, int cols, std::uint32_t tensor, float scale) {
  HostMatrix matrix{rows, cols, {}};
  matrix.values.resize(matrix.count());
  const auto count = static_cast<std::int64_t>(matrix.count());
  in_parallel(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      matrix.values[static_cast<std::size_t>(i)] =
          unit_value(tensor, static_cast<std::uint32_t>(i)) * scale;
    }
  });
  return matrix;
}

}  // namespace

bool HostMatrix::is_written() const {
  return !std::all_of(values.begin(), values.end(), is_poison);
}

HostNetwork::HostNetwork(const Row& of) : row(of) {
  x = filled(row.batch, row.layers.front(), kInput, 1.0F);
  target = filled(row.batch, row.layers.back(), kTarget, 1.0F);
  for (int l = 0; l < row.depth(); ++l) {
    const int k = row.layers[static_cast<std::size_t>(l)];
    const int n = row.layers[static_cast<std::size_t>(l) + 1];
    Layer layer;
    layer.w = filled(k, n, weight_id(l), weight_scale(k));
    layer.b = filled(1, n, bias_id(l), kBiasScale);
    for (HostMatrix* matrix : {&layer.z, &layer.y, &layer.gy, &layer.gz}) {
      *matrix = poisoned(row.batch, n);
    }
    layer.gw = poisoned(k, n);
    layer.gb = poisoned(1, n);
    layers.push_back(std::move(layer));
  }
  if (row.mode == Mode::ForwardBackward) {
    layers.back().gy = filled(row.batch, row.layers.back(), kGivenGradient, 1.0F);
  }
}

}  // namespace bench
