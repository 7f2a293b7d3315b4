// Case C15: operands that share memory, on every road and also where their problem is planned.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "roads.hpp"

namespace {

using gpu::Road;

/// A block of device memory with 16x16 matrices of small integers, as much again between them.
class Block {
 public:
  static constexpr std::int64_t kSize = 16;
  static constexpr std::int64_t kStep = 2 * kSize * kSize;
  static constexpr std::int64_t kMatrices = 6;

  Block() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
    }
    data_ = gpu::device_buffer(values_);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  }
  ~Block() { (void)cudaFree(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Matrix `index`, `shift` floats further on.
  [[nodiscard]] ai::Tensor matrix(int index, std::int64_t shift = 0) const {
    return ai::make_tensor_2d(data_ + index * kStep + shift, {kSize, kSize});
  }
  /// The left or right half of matrix 0.
  [[nodiscard]] ai::Tensor half(bool right) const {
    return ai::make_tensor_2d(data_ + (right ? kSize / 2 : 0), {kSize, kSize / 2}, ai::DType::F32,
                              ai::Device::CUDA, 0, kSize);
  }
  /// Where an element lies in now().
  [[nodiscard]] static std::size_t at(int index, std::int64_t row, std::int64_t col) {
    return static_cast<std::size_t>(index * kStep + row * kSize + col);
  }
  /// What was put there.
  [[nodiscard]] double value(int index, std::int64_t row, std::int64_t col) const {
    return static_cast<double>(values_[at(index, row, col)]);
  }
  [[nodiscard]] std::vector<float> now() const { return gpu::download(data_, values_.size()); }
  void restore() const {
    REQUIRE(cudaMemcpy(data_, values_.data(), values_.size() * sizeof(float),
                       cudaMemcpyHostToDevice) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  }
  [[nodiscard]] bool is_untouched() const { return now() == values_; }

 private:
  std::vector<float> values_ = std::vector<float>(kMatrices * kStep);
  float* data_ = nullptr;
};

ai::GemmForward good_forward(const Block& block) {
  ai::GemmForward call;
  call.A = block.matrix(0);
  call.B = block.matrix(1);
  call.Y = block.matrix(2);
  call.Z = block.matrix(3);
  call.attrs.act = ai::ActKind::ReLU;
  return call;
}
ai::GemmBackward good_backward(const Block& block) {
  ai::GemmBackward call;
  call.A = block.matrix(0);
  call.B = block.matrix(1);
  call.gY = block.matrix(2);
  call.Z = block.matrix(3);
  call.gA = ai::Gradient(block.matrix(4));
  call.gB = ai::Gradient(block.matrix(5));
  call.attrs.act = ai::ActKind::ReLU;
  return call;
}

/// `good` is carried out first, so that its problem is known; then `bad`, the same problem but for
/// its pointers, must be refused by the names of both operands and write nothing.
template <typename Call>
void check_overlap(const Block& block, const Call& good, const Call& bad,
                   const std::string& names) {
  CAPTURE(names);
  for (const Road road : gpu::kRoads) {
    CAPTURE(gpu::to_string(road));
    for (const bool is_planned : {false, true}) {
      CAPTURE(is_planned);
      ai::gemm::clear_plan_cache();
      if (is_planned) {
        const ai::Status status = gpu::carry_out(road, good);
        CHECK_MESSAGE(status.ok(), status.to_string());
        block.restore();
      }
      const ai::Status status = gpu::carry_out(road, bad);
      CHECK_MESSAGE(status.code() == ai::StatusCode::Overlap, status.to_string());
      CHECK_MESSAGE(status.message().find(names) == 0, status.to_string());
      CHECK(block.is_untouched());
    }
  }
}

TEST_CASE("C15: outputs over other operands are Overlap, whether or not the problem is planned") {
  const Block block;
  const ai::GemmForward forward = good_forward(block);
  ai::GemmForward bad = forward;
  bad.Y = bad.A;
  check_overlap(block, forward, bad, "Y overlaps A");
  bad.Y = block.matrix(0, 1);
  check_overlap(block, forward, bad, "Y overlaps A");
  bad.Y = block.matrix(1, Block::kSize);
  check_overlap(block, forward, bad, "Y overlaps B");
  bad = forward;
  bad.Z = bad.Y;
  check_overlap(block, forward, bad, "Z overlaps Y");

  const ai::GemmBackward backward = good_backward(block);
  ai::GemmBackward wrong = backward;
  wrong.gA = ai::Gradient(wrong.gY);
  check_overlap(block, backward, wrong, "gA overlaps gY");
  wrong = backward;
  wrong.gB = ai::Gradient(block.matrix(0, Block::kSize * Block::kSize - 1));  // one element
  check_overlap(block, backward, wrong, "gB overlaps A");
  wrong = backward;
  wrong.gB = wrong.gA;
  check_overlap(block, backward, wrong, "gB overlaps gA");
}

TEST_CASE("C15: column halves of one buffer share nothing, and the result is right") {
  const Block block;
  ai::GemmForward call;
  call.A = block.half(false);
  call.B = ai::make_tensor_2d(block.matrix(1).data, {Block::kSize / 2, Block::kSize / 2});
  call.Y = block.half(true);
  for (const Road road : gpu::kRoads) {
    CAPTURE(gpu::to_string(road));
    block.restore();
    const ai::Status status = gpu::carry_out(road, call);
    CHECK_MESSAGE(status.ok(), status.to_string());
    const std::vector<float> now = block.now();
    int wrong = 0;
    for (std::int64_t row = 0; row < Block::kSize; ++row) {
      for (std::int64_t col = 0; col < Block::kSize; ++col) {
        double expected = block.value(0, row, col);
        if (col >= Block::kSize / 2) {
          expected = 0;
          for (std::int64_t k = 0; k < Block::kSize / 2; ++k) {
            const std::int64_t packed = k * (Block::kSize / 2) + col - Block::kSize / 2;
            expected += block.value(0, row, k) * block.value(1, 0, packed);
          }
        }
        wrong += static_cast<double>(now[Block::at(0, row, col)]) == expected ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("C15: C may be Y itself") {
  const Block block;
  ai::GemmForward call;
  call.A = block.matrix(0);
  call.B = block.matrix(1);
  call.C = call.Y = block.matrix(2);
  call.attrs.beta = 1.0F;
  for (const Road road : gpu::kRoads) {
    CAPTURE(gpu::to_string(road));
    block.restore();
    const ai::Status status = gpu::carry_out(road, call);
    CHECK_MESSAGE(status.ok(), status.to_string());
    const std::vector<float> now = block.now();
    int wrong = 0;
    for (std::int64_t row = 0; row < Block::kSize; ++row) {
      for (std::int64_t col = 0; col < Block::kSize; ++col) {
        double expected = block.value(2, row, col);
        for (std::int64_t k = 0; k < Block::kSize; ++k) {
          expected += block.value(0, row, k) * block.value(1, k, col);
        }
        wrong += static_cast<double>(now[Block::at(2, row, col)]) == expected ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
