#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ai/gemm.hpp"
#include "support/operands.hpp"

/// Networks for the tests of chain kernels: forward only, every layer laid out in its own way.
namespace gpu {

struct ChainLayer {
  std::int64_t width = 1;
  ai::BiasKind bias = ai::BiasKind::PerN;
  ai::ActKind act = ai::ActKind::None;
  bool with_z = false;
  bool is_hidden = false;  ///< Y lies in a temporary of the program; never the last layer's
  bool trans_b = false;
  float alpha = 1.0F;
  float slope = 0.01F;
  std::int64_t pad = 0;     ///< row stride - width of W, Y and Z
  std::int64_t offset = 0;  ///< floats from an aligned address to the first of W, bias, Y and Z
  std::int64_t bias_stride = 1;
};

struct ChainSpec {
  std::int64_t batch = 1;
  std::int64_t inputs = 1;
  std::vector<ChainLayer> layers = {};
  bool trans_a = false;     ///< the input is stored transposed
  std::int64_t pad = 0;     ///< of the input
  std::int64_t offset = 0;  ///< of the input
  std::uint32_t seed = 1;
};

[[nodiscard]] inline std::string to_string(const ChainSpec& spec) {
  const auto placed = [](std::int64_t pad, std::int64_t offset) {
    std::string text;
    if (pad != 0) text += " pad " + std::to_string(pad);
    if (offset != 0) text += " offset " + std::to_string(offset);
    return text;
  };
  std::string text = "batch " + std::to_string(spec.batch) + ": " + std::to_string(spec.inputs);
  if (spec.trans_a) text += "^T";
  text += placed(spec.pad, spec.offset);
  for (const ChainLayer& layer : spec.layers) {
    text += " -> " + std::to_string(layer.width) + " " + ai::to_string(layer.bias) + " " +
            ai::to_string(layer.act);
    if (layer.with_z) text += " Z";
    if (layer.is_hidden) text += " hidden";
    if (layer.trans_b) text += " trans_b";
    if (layer.alpha != 1.0F) text += " alpha " + std::to_string(layer.alpha);
    if (layer.bias_stride != 1) text += " bias stride " + std::to_string(layer.bias_stride);
    text += placed(layer.pad, layer.offset);
  }
  return text + " seed " + std::to_string(spec.seed);
}

/// Layers of these widths, the first one being the input's; the last has no activation.
[[nodiscard]] inline ChainSpec plain_chain(const std::vector<std::int64_t>& widths, ai::ActKind act,
                                           std::int64_t batch) {
  ChainSpec spec{.batch = batch, .inputs = widths.front()};
  for (std::size_t l = 1; l < widths.size(); ++l) {
    spec.layers.push_back(
        {.width = widths[l], .act = l + 1 < widths.size() ? act : ai::ActKind::None});
  }
  return spec;
}

/// All Ys but the last one's in temporaries. `with_z`: every Z is kept, so that what is hidden is
/// known all the same.
[[nodiscard]] inline ChainSpec hidden(ChainSpec spec, bool with_z = false) {
  for (ChainLayer& layer : spec.layers) {
    layer.is_hidden = &layer != &spec.layers.back();
    layer.with_z = with_z;
  }
  return spec;
}

/// Operands of a network in host memory: inputs filled, outputs poisoned. Its buffers keep their
/// addresses as long as it lives and is not moved.
class ChainNetwork {
 public:
  struct Layer {
    support::Buffer b;
    std::optional<support::Buffer> bias;
    std::optional<support::Buffer> z;
    support::Buffer y;
  };

  explicit ChainNetwork(const ChainSpec& given)
      : spec(given),
        x(support::Buffer::matrix(given.trans_a ? given.inputs : given.batch,
                                  given.trans_a ? given.batch : given.inputs, given.pad,
                                  given.offset)) {
    support::Random random(spec.seed);
    const auto fill = [&random](support::Buffer& buffer, float scale) {
      buffer.for_each([&](float& element) { element = scale * random.uniform(); });
    };
    fill(x, 1.0F);
    std::int64_t inputs = spec.inputs;
    for (const ChainLayer& layer : spec.layers) {
      const auto out = [&] {
        return support::Buffer::matrix(spec.batch, layer.width, layer.pad, layer.offset);
      };
      Layer made{
          support::Buffer::matrix(layer.trans_b ? layer.width : inputs,
                                  layer.trans_b ? inputs : layer.width, layer.pad, layer.offset),
          {},
          {},
          out()};
      // Keeps Z near 1 in any depth, so that no activation is met in its tails alone.
      fill(made.b, std::sqrt(6.0F / static_cast<float>(inputs)));
      if (layer.bias != ai::BiasKind::None) {
        made.bias = support::Buffer::bias(layer.bias, spec.batch, layer.width, layer.bias_stride,
                                          layer.offset);
        fill(*made.bias, 1.0F);
      }
      if (layer.with_z) made.z = out();
      layers.push_back(std::move(made));
      inputs = layer.width;
    }
  }

  [[nodiscard]] std::size_t depth() const { return layers.size(); }
  [[nodiscard]] const support::Buffer& last() const { return layers.back().y; }

  /// Layer l's call; `at(buffer)` gives the tensor that stands for a buffer.
  template <typename At>
  [[nodiscard]] ai::GemmForward call(std::size_t l, At&& at) const {
    const Layer& layer = layers[l];
    ai::GemmForward call;
    call.A = at(l == 0 ? x : layers[l - 1].y);
    call.B = at(layer.b);
    if (layer.bias) call.bias = at(*layer.bias);
    call.Y = at(layer.y);
    if (layer.z) call.Z = at(*layer.z);
    call.attrs.trans_a = l == 0 && spec.trans_a;
    call.attrs.trans_b = spec.layers[l].trans_b;
    call.attrs.with_bias = layer.bias.has_value();
    call.attrs.save_z = layer.z.has_value();
    call.attrs.act = spec.layers[l].act;
    call.attrs.alpha = spec.layers[l].alpha;
    call.attrs.leaky_slope = spec.layers[l].slope;
    return call;
  }

  /// Calls f(name, buffer, is_output) for each buffer. The one of a Y that is hidden is no output:
  /// nothing may touch it.
  template <typename F>
  void for_each(F&& f) {
    f("x", x, false);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      Layer& layer = layers[l];
      const std::string of = " of layer " + std::to_string(l + 1);
      f(("W" + of).c_str(), layer.b, false);
      if (layer.bias) f(("bias" + of).c_str(), *layer.bias, false);
      if (layer.z) f(("Z" + of).c_str(), *layer.z, true);
      f(("Y" + of).c_str(), layer.y, !spec.layers[l].is_hidden);
    }
  }
  /// Takes over the values of `other`, which has the same layout, and keeps its own addresses.
  void restore(ChainNetwork& other) {
    std::vector<support::Buffer*> from;
    other.for_each([&](const char*, support::Buffer& buffer, bool) { from.push_back(&buffer); });
    std::size_t i = 0;
    for_each([&](const char*, support::Buffer& buffer, bool) {
      const std::vector<float>& values = from[i++]->raw();
      std::copy(values.begin(), values.end(), buffer.raw().begin());
    });
  }

  ChainSpec spec;
  support::Buffer x;
  std::vector<Layer> layers;
};

}  // namespace gpu
