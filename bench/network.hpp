#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "host_network.hpp"
#include "row.hpp"

namespace bench {

/// A float matrix [rows, cols] on the device, row-major and packed.
struct Matrix {
  float* data = nullptr;
  int rows = 0;
  int cols = 0;
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  }
};

/// The device memory of one row, 256-byte aligned matrices. All its
/// contestants use the same, since where matrices lie in memory has a part in how long they take.
/// Everything is there, whether a contestant needs it or not (`z` may stay unwritten, for example).
class Network {
 public:
  struct Layer {
    Matrix w, b;    ///< [K,N], [1,N]
    Matrix z, y;    ///< [M,N]: before and after the activation
    Matrix gy;      ///< [M,N]: gradient of y (of the last layer: given, or written by the loss)
    Matrix gz;      ///< [M,N]: gradient of z, scratch for whoever needs it
    Matrix gw, gb;  ///< [K,N], [1,N]
  };

  explicit Network(const Row& row);  ///< allocates; reset() fills
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  [[nodiscard]] const Row& row() const { return row_; }
  [[nodiscard]] const Matrix& x() const { return x_; }            ///< [M, layers[0]]
  [[nodiscard]] const Matrix& target() const { return target_; }  ///< [M, layers[last]]
  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }
  /// What layer `l` multiplies: x or the y of the layer before.
  [[nodiscard]] const Matrix& input_of(int l) const {
    return l == 0 ? x_ : layers_[static_cast<std::size_t>(l - 1)].y;
  }

  /// Everything as it was at first, that is as HostNetwork(row()) is, and in memory as if it had
  /// been copied from the host; done when it returns.
  void reset();

 private:
  [[nodiscard]] Matrix allocate(int rows, int cols);

  Row row_;
  Matrix x_, target_;
  std::vector<Layer> layers_;
  std::vector<void*> blocks_;
};

[[nodiscard]] std::vector<float> download(const Matrix& matrix);
/// Everything that is on the device, once its work is done.
[[nodiscard]] HostNetwork download(const Network& network);

/// matrix[i] = unit_value(tensor, i) * scale, or the bits of kPoisonBits everywhere.
void enqueue_fill(const Matrix& matrix, std::uint32_t tensor, float scale, cudaStream_t stream);
void enqueue_poison(const Matrix& matrix, cudaStream_t stream);
/// gy = 2 / (rows * cols) * (y - target), elementwise.
void enqueue_loss_gradient(const Matrix& y, const Matrix& target, const Matrix& gy,
                           cudaStream_t stream);
/// w -= kLearningRate * gw and b -= kLearningRate * gb for every layer, in one kernel.
void enqueue_sgd(const std::vector<Network::Layer>& layers, cudaStream_t stream);

}  // namespace bench
