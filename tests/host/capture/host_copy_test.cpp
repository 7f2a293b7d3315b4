// Copies on the host target, where both sides are ordinary memory.
#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "ai/ai.hpp"

namespace ai {
namespace {

constexpr std::int64_t kRows = 4, kCols = 3;

Tensor matrix(std::vector<float>& values, std::int64_t ld = kCols) {
  return make_tensor_2d(values.data(), {kRows, kCols}, DType::F32, Device::CPU, 0, ld);
}

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

Executable captured(const Program& program) {
  Result<Executable> executable = capture(program);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  return std::move(*executable);
}

TEST_CASE("B5: the host target copies at every launch what lies there then") {
  std::vector<float> in(12), out(12), a(12), eye{1, 0, 0, 0, 1, 0, 0, 0, 1}, y(12);
  Program program;
  REQUIRE(program.copy_in(matrix(in), matrix(a)).ok());
  const auto plan =
      plan_forward({.A = matrix(a),
                    .B = make_tensor_2d(eye.data(), {kCols, kCols}, DType::F32, Device::CPU),
                    .Y = matrix(y),
                    .attrs = {.alpha = 2.0F}});
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  REQUIRE(program.add(*plan).ok());
  REQUIRE(program.copy_out(matrix(y), matrix(out)).ok());
  Executable executable = captured(program);
  REQUIRE(executable.nodes().size() == 3);
  CHECK(executable.nodes()[0].name == "copy_in [4,3]");
  CHECK(executable.nodes()[0].kind == "host");
  CHECK(executable.nodes()[2].name == "copy_out [4,3]");
  CHECK(executable.nodes()[2].depends_on == std::vector<int>{1});
  CHECK(executable.explain().find("copy") == std::string::npos);
  for (const float value : {3.0F, -1.0F}) {
    in.assign(12, value);
    REQUIRE(executable.launch().ok());
    REQUIRE(executable.wait().ok());
    CHECK(out == std::vector<float>(12, 2 * value));
  }
}

TEST_CASE("a copy on the host keeps to its rows, whatever lies between them") {
  // Exactly as long as the tensors reach: a byte too many is out of bounds.
  std::vector<float> from = numbers((kRows - 1) * 5 + kCols);
  std::vector<float> to((kRows - 1) * 7 + kCols, -1.0F);
  Program program;
  REQUIRE(program.copy_in(matrix(from, 5), matrix(to, 7)).ok());
  Executable executable = captured(program);
  REQUIRE(executable.launch().ok());
  for (std::size_t i = 0; i < to.size(); ++i) {
    const float expected = i % 7 < 3 ? from[i / 7 * 5 + i % 7] : -1.0F;
    REQUIRE(to[i] == expected);
  }
}

TEST_CASE("a strided vector of any dtype is copied element by element") {
  std::vector<std::uint16_t> from(5 * 3 + 1), to(5 * 2 + 1, 9);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint16_t>(1000 + i);
  Program program;
  REQUIRE(program
              .copy_out(make_tensor_1d(from.data(), 6, DType::BF16, Device::CPU, 0, 3),
                        make_tensor_1d(to.data(), 6, DType::BF16, Device::CPU, 0, 2))
              .ok());
  Executable executable = captured(program);
  REQUIRE(executable.launch().ok());
  for (std::size_t i = 0; i < to.size(); ++i) {
    REQUIRE(to[i] == (i % 2 == 0 ? 1000 + i / 2 * 3 : 9));
  }
}

TEST_CASE("copies pass through temporaries on the host") {
  std::vector<float> in = numbers(12), out(12);
  Program program;
  TensorDesc desc;
  desc.shape = {kRows, kCols};
  const Result<Tensor> value = program.temporary(desc, Device::CPU);
  REQUIRE(value.ok());
  REQUIRE(program.copy_in(matrix(in), *value).ok());
  REQUIRE(program.copy_out(*value, matrix(out)).ok());
  Executable executable = captured(program);
  REQUIRE(executable.launch().ok());
  CHECK(out == in);
}

TEST_CASE("an empty copy on the host does nothing, with or without memory") {
  const Tensor nothing = make_tensor_2d(nullptr, {0, 4}, DType::F32, Device::CPU);
  std::vector<float> memory(3, 5.0F);
  const Tensor none = make_tensor_2d(memory.data(), {3, 0}, DType::F32, Device::CPU);
  Program program;
  REQUIRE(program.copy_in(nothing, nothing).ok());
  REQUIRE(program.copy_out(none, none).ok());
  Executable executable = captured(program);
  CHECK(executable.launch().ok());
  CHECK(memory == std::vector<float>(3, 5.0F));
}

}  // namespace
}  // namespace ai
