#include "peers/peer_problems.hpp"

namespace bench {
namespace {

const Network::Layer& layer_of(const Network& network, int l) {
  return network.layers()[static_cast<std::size_t>(l)];
}

}  // namespace

const Matrix& gz_of(const Network& network, int l) {
  const Network::Layer& layer = layer_of(network, l);
  return l + 1 == network.row().depth() ? layer.gy : layer.gz;
}

GemmProblem product(const Network& network, int l, cublasLtEpilogue_t epilogue, const Matrix& to) {
  const Network::Layer& layer = layer_of(network, l);
  return {.m = network.row().batch,
          .n = layer.w.cols,
          .k = layer.w.rows,
          .l = network.input_of(l).data,
          .r = layer.w.data,
          .d = to.data,
          .epilogue = epilogue,
          .bias = layer.b.data};
}

GemmProblem data_gradient(const Network& network, int l, cublasLtEpilogue_t epilogue,
                          const Matrix& to) {
  const Network::Layer& above = layer_of(network, l + 1);
  return {.m = network.row().batch,
          .n = layer_of(network, l).w.cols,
          .k = above.w.cols,
          .trans_r = true,
          .l = gz_of(network, l + 1).data,
          .r = above.w.data,
          .d = to.data,
          .epilogue = epilogue};
}

GemmProblem weight_gradient(const Network& network, int l, cublasLtEpilogue_t epilogue) {
  const Network::Layer& layer = layer_of(network, l);
  return {.m = layer.w.rows,
          .n = layer.w.cols,
          .k = network.row().batch,
          .trans_l = true,
          .l = network.input_of(l).data,
          .r = gz_of(network, l).data,
          .d = layer.gw.data,
          .epilogue = epilogue};
}

}  // namespace bench
