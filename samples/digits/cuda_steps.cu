#include <cuda_runtime.h>

#include "dataset.hpp"
#include "steps.hpp"

namespace digits {
namespace {

constexpr int kMaxBatch = 1024;

// One thread a row in one block; the losses are added in a fixed tree, so a replay repeats to the
// bit.
__global__ void cross_entropy_kernel(CrossEntropy args) {
  __shared__ float losses[kMaxBatch];
  const int row = static_cast<int>(threadIdx.x);
  float loss = 0.0F;
  if (row < args.batch) {
    const float* logits = args.logits + row * kClasses;
    const float* targets = args.targets + row * kClasses;
    float top = logits[0];
    for (int i = 1; i < kClasses; ++i) top = fmaxf(top, logits[i]);
    float sum = 0.0F;
    for (int i = 0; i < kClasses; ++i) sum += expf(logits[i] - top);
    const float scale = 1.0F / static_cast<float>(args.batch);
    for (int i = 0; i < kClasses; ++i) {
      const float shifted = logits[i] - top;
      args.gradient[row * kClasses + i] = (expf(shifted) / sum - targets[i]) * scale;
      loss -= targets[i] * (shifted - logf(sum)) * scale;
    }
  }
  losses[row] = loss;
  for (int half = static_cast<int>(blockDim.x) / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row < half) losses[row] += losses[row + half];
  }
  if (row == 0) args.loss[0] += losses[0];
}

__global__ void count_kernel(float* state) {
  state[0] += 1.0F;
}

__global__ void adam_kernel(Adam args) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= args.count) return;
  const float t = args.state[0];
  const float g = args.gradients[i];
  const float m = kBeta1 * args.first_moment[i] + (1.0F - kBeta1) * g;
  const float v = kBeta2 * args.second_moment[i] + (1.0F - kBeta2) * g * g;
  args.first_moment[i] = m;
  args.second_moment[i] = v;
  args.weights[i] -= kLearningRate * (m / (1.0F - powf(kBeta1, t))) /
                     (sqrtf(v / (1.0F - powf(kBeta2, t))) + kEpsilon);
}

ai::Status launched() {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return {ai::StatusCode::CudaError, cudaGetErrorString(error)};
}

}  // namespace

ai::Status run_on_cuda(const CrossEntropy& args, ai::Stream stream) {
  if (args.batch > kMaxBatch) {
    return {ai::StatusCode::Unsupported, "cross_entropy takes a batch of at most 1024"};
  }
  int threads = 32;
  while (threads < args.batch) threads *= 2;
  cross_entropy_kernel<<<1, threads, 0, stream>>>(args);
  return launched();
}

ai::Status run_on_cuda(const Adam& args, ai::Stream stream) {
  count_kernel<<<1, 1, 0, stream>>>(args.state);
  adam_kernel<<<(args.count + 255) / 256, 256, 0, stream>>>(args);
  return launched();
}

}  // namespace digits
