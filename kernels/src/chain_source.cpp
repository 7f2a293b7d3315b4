#include "kernels/chain_source.hpp"

#include <array>
#include <cstdio>
#include <iterator>
#include <vector>

#include "chain_text.hpp"

namespace ai::kernels::chain {
namespace {

// The run-time compiler brings no standard library, and has these in the global namespace.
constexpr const char* kMathText =
    "#pragma once\n"
    "namespace std {\n"
    "inline float exp(float x) { return ::expf(x); }\n"
    "inline float expm1(float x) { return ::expm1f(x); }\n"
    "inline float erfc(float x) { return ::erfcf(x); }\n"
    "inline float tanh(float x) { return ::tanhf(x); }\n"
    "inline float fabs(float x) { return ::fabsf(x); }\n"
    "inline bool isinf(float x) { return ::isinf(x); }\n"
    "}\n";

// What make_chain_step passes: `state` where the kernel has any.
constexpr const char* kArgumentsText =
    "struct Arguments {\n"
    "  const float* x;\n"
    "  const float* w[kDepth];\n"
    "  const float* bias[kDepth];\n"
    "  float* y[kDepth];\n"
    "  float* z[kDepth];\n"
    "  unsigned* state;\n"
    "};\n";

std::string exact(float value) {
  char text[48];
  std::snprintf(text, sizeof text, "%aF", static_cast<double>(value));
  return text;
}

std::string list(std::initializer_list<std::string> values) {
  std::string text = "{";
  for (const std::string& value : values) {
    if (text.size() > 1) text += ", ";
    text += value;
  }
  return text + "}";
}

std::string text_of(bool value) {
  return value ? "true" : "false";
}

std::string text_of(const Layer& layer, bool aligned) {
  using std::to_string;
  return list({to_string(layer.k), to_string(layer.n), to_string(layer.w_k), to_string(layer.w_n),
               std::string("ActKind::") + ai::to_string(layer.act), exact(layer.slope),
               exact(layer.alpha), text_of(layer.has_bias), to_string(layer.bias_m),
               to_string(layer.bias_n), text_of(layer.writes_y), to_string(layer.y_m),
               text_of(layer.writes_z), to_string(layer.z_m), text_of(aligned && layer.w16),
               text_of(aligned && layer.y16), text_of(aligned && layer.z16)});
}

}  // namespace

std::string source_of(const Network& network, const Specification& specification) {
  using std::to_string;
  const bool aligned = specification.knows_alignment;
  std::string text =
      "#include \"kernels/chain_copy.cuh\"\n"
      "#include \"";
  text += specification.layout;
  text +=
      "\"\n"
      "namespace ai::kernels::chain {\n"
      "constexpr Input kInput = ";
  const Input& input = network.input;
  text += list({to_string(input.rows), to_string(input.x_m), to_string(input.x_k),
                text_of(aligned && input.x16)});
  text += ";\nconstexpr ";
  text += specification.type;
  text += " kShape = " + specification.shape;
  text += ";\nconstexpr int kDepth = " + to_string(network.layers.size());
  text += ";\nconstexpr Layer kLayers[kDepth] = {\n";
  for (const Layer& layer : network.layers) text += "    " + text_of(layer, aligned) + ",\n";
  text += "};\n";
  text += kArgumentsText;
  text += "}  // namespace ai::kernels::chain\n#include \"";
  text += specification.kernel;
  return text + "\"\n";
}

std::span<const Header> headers() noexcept {
  static const std::vector<Header> kHeaders = [] {
    std::vector<Header> all(std::begin(kTexts), std::end(kTexts));
    all.push_back({"cmath", kMathText});
    return all;
  }();
  return kHeaders;
}

std::span<const char* const> options() noexcept {
  static constexpr std::array<const char*, 2> kOptions = {"-std=c++20", "-default-device"};
  return kOptions;
}

}  // namespace ai::kernels::chain
