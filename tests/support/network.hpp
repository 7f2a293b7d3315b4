#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cases.hpp"

/// Whole networks: a table of them, their operands in host memory, and each layer's calls.
namespace support {

struct LayerSpec {
  std::int64_t width = 1;
  ai::BiasKind bias = ai::BiasKind::None;
  ai::ActKind act = ai::ActKind::None;
  bool trans_b = false;
  bool accumulates = false;  ///< gB and gBias add to what is there
};

struct NetworkSpec {
  std::int64_t batch = 1;
  std::int64_t inputs = 1;
  std::vector<LayerSpec> layers = {};
  bool trans_a = false;  ///< the input is stored transposed
  bool with_gx = false;  ///< the gradient of the input is wanted too
  std::int64_t pad = 0;  ///< leading dimension - width of every matrix
  std::uint32_t seed = 1;

  [[nodiscard]] bool accumulates() const {
    return std::any_of(layers.begin(), layers.end(),
                       [](const LayerSpec& layer) { return layer.accumulates; });
  }
};

[[nodiscard]] inline std::string to_string(const NetworkSpec& spec) {
  std::string text = "batch " + std::to_string(spec.batch) + ": " + std::to_string(spec.inputs);
  if (spec.trans_a) text += "^T";
  for (const LayerSpec& layer : spec.layers) {
    text += " -> " + std::to_string(layer.width) + " " + ai::to_string(layer.bias) + " " +
            ai::to_string(layer.act);
    if (layer.trans_b) text += " trans_b";
    if (layer.accumulates) text += " +";
  }
  if (spec.with_gx) text += " gX";
  return text + " pad " + std::to_string(spec.pad) + " seed " + std::to_string(spec.seed);
}

/// Three and four layers of odd, even and mixed widths (1 among them) for batch 1, 7 and 64. Over
/// the nine networks of a batch each activation meets each place in a network, and every kind of
/// bias, transposes and accumulation occur. `step` takes every step-th of the nine.
[[nodiscard]] inline std::vector<NetworkSpec> networks(std::size_t step = 1) {
  const std::vector<std::vector<std::int64_t>> widths = {
      {64, 128, 128, 32, 16}, {33, 65, 17, 5}, {30, 64, 7, 1, 40}};
  std::vector<NetworkSpec> specs;
  for (const std::int64_t batch : {1, 7, 64}) {
    for (std::size_t round = 0; round < 9; round += step) {
      const std::vector<std::int64_t>& sizes = widths[round % widths.size()];
      NetworkSpec spec;
      spec.batch = batch;
      spec.inputs = sizes.front();
      for (std::size_t l = 0; l + 1 < sizes.size(); ++l) {
        spec.layers.push_back({.width = sizes[l + 1],
                               .bias = kBiasKinds[(round + l) % std::size(kBiasKinds)],
                               .act = kActs[(round + 2 * l) % std::size(kActs)],
                               .trans_b = (round + l) % 3 == 1,
                               .accumulates = round % 3 == 1 && l % 2 == 0});
      }
      spec.trans_a = round % 4 == 3;
      spec.with_gx = round % 2 == 0;
      spec.seed = static_cast<std::uint32_t>(9000 + specs.size());
      specs.push_back(spec);
    }
  }
  return specs;
}

/// Operands of a network; its buffers must keep their addresses once copied to a device. Layer l
/// reads the `y` of layer l - 1 and has the gradient of its own output in `gy`.
class Network {
 public:
  struct Layer {
    Buffer b;
    std::optional<Buffer> bias;
    std::optional<Buffer> z;  ///< where there is an activation
    Buffer y;
    Buffer gy;
    Buffer gb;
    std::optional<Buffer> gbias;
  };

  explicit Network(const NetworkSpec& given)
      : spec(given),
        x(Buffer::matrix(given.trans_a ? given.inputs : given.batch,
                         given.trans_a ? given.batch : given.inputs, given.pad)) {
    Random random(spec.seed);
    const auto fill = [&random](Buffer& buffer, float scale) {
      buffer.for_each([&](float& element) { element = scale * random.uniform(); });
    };
    fill(x, 1.0F);
    if (spec.with_gx) gx = Buffer::matrix(x.rows(), x.cols(), spec.pad);
    std::int64_t inputs = spec.inputs;
    for (const LayerSpec& layer : spec.layers) {
      const auto out = [&] { return Buffer::matrix(spec.batch, layer.width, spec.pad); };
      const auto weights = [&] {
        return Buffer::matrix(layer.trans_b ? layer.width : inputs,
                              layer.trans_b ? inputs : layer.width, spec.pad);
      };
      Layer made{weights(), {}, {}, out(), out(), weights(), {}};
      // Keeps Z near 1 in any depth, so that no activation is met in its tails alone.
      fill(made.b, std::sqrt(6.0F / static_cast<float>(inputs)));
      if (layer.accumulates) fill(made.gb, 1.0F);
      if (layer.bias != ai::BiasKind::None) {
        made.bias = made.gbias = Buffer::bias(layer.bias, spec.batch, layer.width, 1 + spec.pad);
        fill(*made.bias, 1.0F);
        if (layer.accumulates) fill(*made.gbias, 1.0F);
      }
      if (layer.act != ai::ActKind::None) made.z = out();
      layers.push_back(std::move(made));
      inputs = layer.width;
    }
    fill(layers.back().gy, 1.0F);
  }

  [[nodiscard]] std::size_t depth() const { return layers.size(); }
  [[nodiscard]] ai::GemmAttrs attrs(std::size_t l) const {
    ai::GemmAttrs attrs;
    attrs.trans_a = l == 0 && spec.trans_a;
    attrs.trans_b = spec.layers[l].trans_b;
    attrs.with_bias = layers[l].bias.has_value();
    attrs.save_z = layers[l].z.has_value();
    attrs.act = spec.layers[l].act;
    return attrs;
  }
  /// The buffer that takes the gradient of layer l's input; null where none is wanted.
  [[nodiscard]] const Buffer* input_gradient(std::size_t l) const {
    if (l > 0) return &layers[l - 1].gy;
    return gx ? &*gx : nullptr;
  }

  /// Layer l's calls; `at(buffer)` gives the tensor that stands for a buffer.
  template <typename At>
  [[nodiscard]] ai::GemmForward forward(std::size_t l, At&& at) const {
    const Layer& layer = layers[l];
    ai::GemmForward call;
    call.A = at(l == 0 ? x : layers[l - 1].y);
    call.B = at(layer.b);
    if (layer.bias) call.bias = at(*layer.bias);
    call.Y = at(layer.y);
    if (layer.z) call.Z = at(*layer.z);
    call.attrs = attrs(l);
    return call;
  }
  template <typename At>
  [[nodiscard]] ai::GemmBackward backward(std::size_t l, At&& at) const {
    const Layer& layer = layers[l];
    const ai::GradMode mode =
        spec.layers[l].accumulates ? ai::GradMode::Accumulate : ai::GradMode::Overwrite;
    ai::GemmBackward call;
    call.A = at(l == 0 ? x : layers[l - 1].y);
    call.B = at(layer.b);
    call.gY = at(layer.gy);
    if (layer.z) call.Z = at(*layer.z);
    if (const Buffer* gradient = input_gradient(l)) call.gA = ai::Gradient(at(*gradient));
    call.gB = ai::Gradient(at(layer.gb), mode);
    if (layer.gbias) call.gBias = ai::Gradient(at(*layer.gbias), mode);
    call.attrs = attrs(l);
    return call;
  }

  /// Calls f(name, buffer, is_output) for each buffer. One that a temporary stands for
  /// (`hides_forward`, `hides_gradients`) is no output: nothing may touch it.
  template <typename F>
  void for_each(F&& f) {
    f("x", x, false);
    if (gx) f("gx", *gx, true);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      Layer& layer = layers[l];
      const bool is_last = l + 1 == layers.size();
      f("B", layer.b, false);
      if (layer.bias) f("bias", *layer.bias, false);
      if (layer.z) f("Z", *layer.z, !hides_forward);
      f("Y", layer.y, is_last || !hides_forward);
      f("gY", layer.gy, !is_last && !hides_gradients);
      f("gB", layer.gb, true);
      if (layer.gbias) f("gBias", *layer.gbias, true);
    }
  }
  /// Takes over the values of `other`, which has the same spec, and keeps its own addresses.
  void restore(Network& other) {
    std::vector<Buffer*> from;
    other.for_each([&](const char*, Buffer& buffer, bool) { from.push_back(&buffer); });
    std::size_t i = 0;
    for_each([&](const char*, Buffer& buffer, bool) {
      const std::vector<float>& values = from[i++]->raw();
      std::copy(values.begin(), values.end(), buffer.raw().begin());
    });
  }

  NetworkSpec spec;
  Buffer x;
  std::optional<Buffer> gx;
  std::vector<Layer> layers;
  bool hides_forward = false;
  bool hides_gradients = false;
};

}  // namespace support
