#include "network.hpp"

#include "data.hpp"
#include "timing.hpp"

namespace bench {
namespace {

// Writes what the L2 cache holds back to memory, so that operands are found there as if they had
// been copied from the host.
void write_back_l2() {
  int device = 0;
  int bytes = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
  void* other = nullptr;
  const std::size_t enough = 3 * static_cast<std::size_t>(bytes);
  check(cudaMalloc(&other, enough), "cudaMalloc to write the L2 cache back");
  cudaError_t error = cudaMemset(other, 0, enough);
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  (void)cudaFree(other);
  check(error, "writing the L2 cache back");
}

}  // namespace

Network::Network(const Row& row) : row_(row) {
  try {
    x_ = allocate(row.batch, row.layers.front());
    target_ = allocate(row.batch, row.layers.back());
    for (int l = 0; l < row.depth(); ++l) {
      const int k = row.layers[static_cast<std::size_t>(l)];
      const int n = row.layers[static_cast<std::size_t>(l) + 1];
      Layer layer;
      layer.w = allocate(k, n);
      layer.b = allocate(1, n);
      for (Matrix* matrix : {&layer.z, &layer.y, &layer.gy, &layer.gz}) {
        *matrix = allocate(row.batch, n);
      }
      layer.gw = allocate(k, n);
      layer.gb = allocate(1, n);
      layers_.push_back(layer);
    }
  } catch (...) {
    for (void* block : blocks_) (void)cudaFree(block);
    throw;
  }
}

Network::~Network() {
  for (void* block : blocks_) (void)cudaFree(block);
}

Matrix Network::allocate(int rows, int cols) {
  Matrix matrix{nullptr, rows, cols};
  blocks_.push_back(nullptr);
  check(cudaMalloc(&blocks_.back(), matrix.count() * sizeof(float)), "cudaMalloc of a matrix");
  matrix.data = static_cast<float*>(blocks_.back());
  return matrix;
}

void Network::reset() {
  cudaStream_t stream = nullptr;
  enqueue_fill(x_, kInput, 1.0F, stream);
  enqueue_fill(target_, kTarget, 1.0F, stream);
  for (int l = 0; l < row_.depth(); ++l) {
    const Layer& layer = layers_[static_cast<std::size_t>(l)];
    enqueue_fill(layer.w, weight_id(l), weight_scale(layer.w.rows), stream);
    enqueue_fill(layer.b, bias_id(l), kBiasScale, stream);
    for (const Matrix& matrix : {layer.z, layer.y, layer.gy, layer.gz, layer.gw, layer.gb}) {
      enqueue_poison(matrix, stream);
    }
  }
  if (row_.mode == Mode::ForwardBackward) {
    enqueue_fill(layers_.back().gy, kGivenGradient, 1.0F, stream);
  }
  check(cudaDeviceSynchronize(), "filling a network");
  write_back_l2();
}

std::vector<float> download(const Matrix& matrix) {
  std::vector<float> values(matrix.count());
  check(
      cudaMemcpy(values.data(), matrix.data, values.size() * sizeof(float), cudaMemcpyDeviceToHost),
      "cudaMemcpy of a matrix");
  return values;
}

HostNetwork download(const Network& network) {
  HostNetwork host(network.row());
  host.x.values = download(network.x());
  host.target.values = download(network.target());
  for (std::size_t l = 0; l < host.layers.size(); ++l) {
    HostNetwork::Layer& to = host.layers[l];
    const Network::Layer& from = network.layers()[l];
    to.w.values = download(from.w);
    to.b.values = download(from.b);
    to.z.values = download(from.z);
    to.y.values = download(from.y);
    to.gy.values = download(from.gy);
    to.gz.values = download(from.gz);
    to.gw.values = download(from.gw);
    to.gb.values = download(from.gb);
  }
  return host;
}

}  // namespace bench
