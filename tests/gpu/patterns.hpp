#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

/// Large matrices filled and checked where they are, on the device.
namespace gpu {

/// Element (row, col) is constant + per_row * (row % row_period) + per_col * (col % col_period),
/// with the sign turned in every second element (counted along rows) where `alternates`. Choose
/// numbers for which that is exact in f32.
struct Pattern {
  double constant = 0.0;
  double per_row = 0.0;
  std::int64_t row_period = std::int64_t{1} << 62;
  double per_col = 0.0;
  std::int64_t col_period = std::int64_t{1} << 62;
  bool alternates = false;
};

/// rows x cols floats at `data`, ld apart, with `guard` floats before and after that are not part
/// of it. Outside of its elements every bit is set.
struct DeviceView {
  float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t ld = 0;
  std::int64_t guard = 0;
};

/// What check_pattern found.
struct Findings {
  unsigned long long wrong = 0;      ///< elements that are not the pattern's
  unsigned long long first = ~0ULL;  ///< the first of them, as row * cols + col
  unsigned long long touched = 0;    ///< floats outside whose bits are not all set
};

/// Writes columns [first_col, first_col + cols) of the elements.
cudaError_t fill_pattern(const DeviceView& view, const Pattern& pattern, std::int64_t first_col,
                         std::int64_t cols, cudaStream_t stream);
/// Adds to *findings (device memory, freshly made).
cudaError_t check_pattern(const DeviceView& view, const Pattern& pattern, double tolerance,
                          Findings* findings, cudaStream_t stream);
/// Adds a number made of all bits of data[0..count) to *hash (device memory). The same bits always
/// give the same number, whatever order the GPU takes them in.
cudaError_t add_hash(const float* data, std::int64_t count, unsigned long long* hash,
                     cudaStream_t stream);

}  // namespace gpu
