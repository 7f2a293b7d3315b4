// Copies between host memory and the device: how both sides may lie in memory, and where.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "pinned.hpp"

namespace {

using ai::Device;
using ai::DType;
using ai::Tensor;
using gpu::captured;
using gpu::device_buffer;
using gpu::on_host;
using gpu::Pinned;
using gpu::PinnedLayer;
using gpu::require_ok;

/// One side of a copy inside a block of bytes.
struct Side {
  std::int64_t stride;      // in elements, of the rows or (rank 1) of the elements
  std::int64_t offset = 0;  // in elements
};

void round_trip(DType dtype, const ai::Extents& shape, Side from, Side device, Side to) {
  CAPTURE(ai::to_string(dtype));
  CAPTURE(shape[0]);
  CAPTURE(from.stride);
  CAPTURE(device.stride);
  CAPTURE(to.stride);
  constexpr std::size_t kBytes = 64 << 10;
  constexpr std::uint8_t kUntouched = 0xA5;
  const Pinned source(kBytes / 4);
  const Pinned target(kBytes / 4);
  auto* const source_bytes = reinterpret_cast<std::uint8_t*>(source.data());
  auto* const target_bytes = reinterpret_cast<std::uint8_t*>(target.data());
  for (std::size_t i = 0; i < kBytes; ++i)
    source_bytes[i] = static_cast<std::uint8_t>(i * 37 % 251);
  std::fill(target_bytes, target_bytes + kBytes, kUntouched);
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, kBytes) == cudaSuccess);
  REQUIRE(cudaMemset(block, kUntouched, kBytes) == cudaSuccess);

  const auto size = static_cast<std::int64_t>(ai::size_of(dtype));
  const auto tensor = [&](void* base, const Side& side, Device where) {
    Tensor made;
    made.data = static_cast<char*>(base) + side.offset * size;
    made.desc.dtype = dtype;
    made.desc.shape = shape;
    made.desc.stride = shape.rank() == 2 ? ai::Extents{side.stride, 1} : ai::Extents{side.stride};
    made.device = where;
    return made;
  };
  ai::Program program;
  const Tensor on_device = tensor(block, device, Device::CUDA);
  require_ok(program.copy_in(tensor(source_bytes, from, Device::CPU), on_device));
  require_ok(program.copy_out(on_device, tensor(target_bytes, to, Device::CPU)));
  ai::Executable executable = captured(program);
  require_ok(executable.launch());
  require_ok(executable.wait());

  std::vector<std::uint8_t> on_gpu(kBytes);
  REQUIRE(cudaMemcpy(on_gpu.data(), block, kBytes, cudaMemcpyDeviceToHost) == cudaSuccess);
  const auto expected = [&](const Side& side) {
    std::vector<std::uint8_t> bytes(kBytes, kUntouched);
    const std::int64_t width = (shape.rank() == 2 ? shape[1] : 1) * size;
    for (std::int64_t row = 0; row < shape[0]; ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        bytes[static_cast<std::size_t>((side.offset + row * side.stride) * size + i)] =
            source_bytes[(from.offset + row * from.stride) * size + i];
      }
    }
    return bytes;
  };
  CHECK((on_gpu == expected(device)));
  CHECK(std::equal(target_bytes, target_bytes + kBytes, expected(to).begin()));
  (void)cudaFree(block);
}

TEST_CASE("copies of any strides and dtype move their elements and nothing else") {
  for (const DType dtype : {DType::F32, DType::F16, DType::I8}) {
    round_trip(dtype, {33, 17}, {17}, {17}, {17});
    round_trip(dtype, {33, 17}, {17, 3}, {40, 5}, {19, 1});
    round_trip(dtype, {33, 17}, {23, 1}, {17}, {31});
    round_trip(dtype, {1, 100}, {100, 7}, {1, 3}, {0, 1});
    round_trip(dtype, {100}, {1}, {1, 1}, {1, 2});
    round_trip(dtype, {100}, {3, 1}, {1}, {2});
    round_trip(dtype, {100}, {1, 1}, {7, 3}, {5, 2});
    round_trip(dtype, {1}, {1, 5}, {9}, {3});
  }
}

TEST_CASE("a copy of nothing is no node, and its pointers may be null") {
  PinnedLayer pinned;
  const Tensor nothing = on_host(nullptr, 0, 3);
  require_ok(pinned.program.copy_in(nothing, ai::make_tensor_2d(nullptr, {0, 3})));
  require_ok(pinned.program.copy_out(ai::make_tensor_2d(nullptr, {0, 3}), nothing));
  ai::Executable executable = captured(pinned.program);
  for (const ai::Node& node : executable.nodes()) {
    CHECK(node.name.find("[0,3]") == std::string::npos);
  }
  pinned.in.fill(1.0F);
  require_ok(executable.launch());
  require_ok(executable.wait());
  CHECK(pinned.out.holds(PinnedLayer::result(1.0F)));
}

ai::Status capture_copy_from(const void* host, std::int64_t count) {
  float* const device = device_buffer(std::vector<float>(static_cast<std::size_t>(count)));
  ai::Program program;
  require_ok(program.copy_in(on_host(host, 1, count), ai::make_tensor_2d(device, {1, count})));
  const auto executable = ai::capture(program, gpu::kQuick);
  (void)cudaFree(device);
  return executable.status();
}

TEST_CASE("B5: host memory that is not pinned throughout is refused when it is captured") {
  const auto check = [](const ai::Status& status) {
    CAPTURE(status.to_string());
    CHECK(status.code() == ai::StatusCode::DeviceMismatch);
    CHECK(status.message().find("host of copy_in [1,") == 0);
    CHECK(status.message().find("expected pinned host memory") != std::string::npos);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  };
  const std::vector<float> pageable(64);
  check(capture_copy_from(pageable.data(), 64));
  float* managed = nullptr;
  REQUIRE(cudaMallocManaged(&managed, 256) == cudaSuccess);
  check(capture_copy_from(managed, 64));
  (void)cudaFree(managed);
  float* const device = device_buffer(std::vector<float>(64));
  check(capture_copy_from(device, 64));
  (void)cudaFree(device);

  constexpr std::size_t kPage = 4096;
  constexpr std::int64_t kFloats = kPage / sizeof(float);
  void* const pages = std::aligned_alloc(kPage, 3 * kPage);
  REQUIRE(pages != nullptr);
  REQUIRE(cudaHostRegister(pages, kPage, cudaHostRegisterDefault) == cudaSuccess);
  CHECK(capture_copy_from(pages, kFloats).ok());
  check(capture_copy_from(pages, 2 * kFloats));
  CHECK(cudaHostUnregister(pages) == cudaSuccess);
  check(capture_copy_from(pages, kFloats));
  std::free(pages);
}

TEST_CASE("the device side of a copy is never host memory, pinned or not") {
  const Pinned host(16);
  const Pinned other(16);
  ai::Program program;
  require_ok(program.copy_in(on_host(host.data(), 4, 4), ai::make_tensor_2d(other.data(), {4, 4})));
  const ai::Status status = ai::capture(program, gpu::kQuick).status();
  CHECK(status.code() == ai::StatusCode::DeviceMismatch);
  CHECK_MESSAGE(status.message().find("device of copy_in [4,4] points to pinned host memory") == 0,
                status.message());
}

}  // namespace
