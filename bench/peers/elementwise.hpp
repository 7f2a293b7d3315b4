#pragma once

#include <cuda_runtime_api.h>

#include "ai/activation.hpp"
#include "network.hpp"
#include "peers/device_memory.hpp"

namespace bench {

// What cuBLASLt has no epilogue for: one kernel each, for ReLU, ELU, GELUTanh and Tanh (Absent for
// others), every one of which keeps NaN. They throw Failed where the launch fails.

/// Where act' comes from: from Z, or from Y = act(Z), which ReLU, ELU and Tanh allow.
enum class Source { Z, Y };

/// y = act(z); y may be z.
void enqueue_activation(ai::ActKind act, const Matrix& z, const Matrix& y, cudaStream_t stream);

/// gz = gy * act'; gz may be gy.
void enqueue_activation_gradient(ai::ActKind act, Source source, const Matrix& saved,
                                 const Matrix& gy, const Matrix& gz, cudaStream_t stream);

/// Sums over the rows of one matrix shape, the same bits every time. One object serves one stream
/// at a time: it owns the partial sums.
class ColumnSum {
 public:
  ColumnSum(int rows, int cols);

  /// gb[j] = sum over i of gz[i,j].
  void enqueue(const Matrix& gz, const Matrix& gb, cudaStream_t stream) const;
  /// gz = gy * act' (gz may be gy) and its sum, in one kernel.
  void enqueue_with_gradient(ai::ActKind act, Source source, const Matrix& saved, const Matrix& gy,
                             const Matrix& gz, const Matrix& gb, cudaStream_t stream) const;

 private:
  template <typename Work>
  void launch(const Work& work, const Matrix& gb, cudaStream_t stream) const;

  int rows_;
  int cols_;
  int width_;           ///< columns that one thread takes: 4 or 1
  dim3 block_;          ///< x runs along the columns, y along the rows
  dim3 grid_;           ///< y: slices of the rows, summed up by the last block of each column tile
  int rows_per_slice_;  ///< a multiple of block_.y
  DeviceBuffer partial_;
  DeviceBuffer tickets_;
};

}  // namespace bench
