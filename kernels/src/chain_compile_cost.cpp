#include "chain_compile_cost.hpp"

#include <cstddef>

namespace ai::kernels::chain {
namespace {

// The estimate is now and then half of what it takes; a kernel is compiled by one core, all by two.
constexpr double kMostOfOne = 2.4;
constexpr double kMostOfAll = 3.5;

// Fitted to 254 kernels, of networks of 2 to 63 layers, as NVRTC 13.0 compiles them for sm_90a on
// one core at about 2.5 GHz.

double seconds_of(const Network& network, const Shape& shape) {
  const auto depth = static_cast<double>(network.layers.size());
  double weights = 0;
  for (const Layer& layer : network.layers) weights += weights_of(layer, shape);
  const double products = weights * shape.slab;
  const double each = shape.staged ? 0.23e-3 : 0.335e-3;
  return 0.03 + 0.009 * depth + 0.74e-3 * depth * depth + each * products +
         0.028e-3 * depth * weights;
}

double seconds_of(const Network& network, const RowsShape& shape) {
  // One row a warp: each layer has code of its own. Else those that are alike share it.
  double texts = 1;
  for (std::size_t l = 1; l < network.layers.size(); ++l) {
    const Layer& one = network.layers[l - 1];
    const Layer& other = network.layers[l];
    texts += shape.rows == 1 || one.k != other.k || one.n != other.n || one.act != other.act;
  }
  return 0.15 + 0.03 * texts;
}

double seconds_of(const Network& network, const GridShape&) {
  return 0.05 + 0.03 * static_cast<double>(network.layers.size());
}

double seconds_of(const Network& network, const TilesShape& shape) {
  double tiles = 0;
  for (const Layer& layer : network.layers) tiles += tile_of(layer, shape).rounds;
  return 0.05 + (0.05 + 0.0035 * shape.group) * tiles + 0.003 * tiles * tiles;
}

}  // namespace

double compile_seconds(const Network& network, const Form& form) {
  return std::visit([&](const auto& shape) { return seconds_of(network, shape); }, form);
}

std::vector<Form> compiled_in_time(const Network& network, std::vector<Form> forms) {
  double left = kMostOfAll;
  std::erase_if(forms, [&](const Form& form) {
    const double seconds = compile_seconds(network, form);
    if (seconds > kMostOfOne || seconds > left) return true;
    left -= seconds;
    return false;
  });
  return forms;
}

}  // namespace ai::kernels::chain
