#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "fake_device.hpp"
#include "kernels/launch.hpp"
#include "kernels/zero_fill.hpp"
#include "matrix.hpp"

using ai::kernels::Epilogue;
using ai::kernels::matrix_view;

namespace {

std::shared_ptr<ai::Step> step_of(const Epilogue& epilogue) {
  ai::kernels::Machine machine(fake_device::api(), &fake_lt::load, 0);
  return ai::kernels::make_epilogue_step(fake_device::api(), machine.resident_threads().value(),
                                         epilogue, "epilogue Y");
}

}  // namespace

TEST_CASE("the epilogue works in fours only where every operand allows it [C13]") {
  (void)fake_device::fresh_backend();
  const auto width_of = [](const Matrix& raw, const Matrix& c, const Matrix& z, const Matrix& y) {
    Epilogue epilogue;
    epilogue.raw = matrix_view(raw.tensor());
    epilogue.c = matrix_view(c.tensor());
    epilogue.z = matrix_view(z.tensor());
    epilogue.y = matrix_view(y.tensor());
    REQUIRE(step_of(epilogue)->enqueue({}, nullptr).ok());
    return fake_device::state().launches.back().width;
  };
  const Matrix even(3, 8, 4);
  const Matrix odd_ld(3, 8, 1);
  const Matrix shifted(3, 8, 4, 1);
  const Matrix four_shifted(3, 8, 4, 4);
  CHECK(width_of(even, even, even, even) == 4);
  CHECK(width_of(even, even, even, four_shifted) == 4);
  for (const Matrix* other : {&odd_ld, &shifted}) {
    CHECK(width_of(*other, even, even, even) == 1);
    CHECK(width_of(even, *other, even, even) == 1);
    CHECK(width_of(even, even, *other, even) == 1);
    CHECK(width_of(even, even, even, *other) == 1);
  }
  const Matrix narrow(3, 6, 2);
  CHECK(width_of(narrow, narrow, narrow, narrow) == 1);
}

TEST_CASE("the epilogue chooses its width by the addresses of the recording [B6]") {
  (void)fake_device::fresh_backend();
  const Matrix y(3, 8), shifted(3, 8, 0, 1);
  Epilogue epilogue;
  epilogue.y = matrix_view(y.tensor());
  ai::AddressMap addresses;
  addresses.add(reinterpret_cast<std::uintptr_t>(y.data()), 96, shifted.data());
  REQUIRE(step_of(epilogue)->enqueue(addresses, nullptr).ok());
  CHECK(fake_device::state().launches.back().width == 1);
}

TEST_CASE("small epilogues take one small block, large ones no more than the device holds [C8]") {
  (void)fake_device::fresh_backend();
  const auto launch_of = [](std::int64_t rows, std::int64_t cols) {
    Matrix y(rows, cols);
    Epilogue epilogue;
    epilogue.y = matrix_view(y.tensor());
    const Matrix scalar(1, 1, 0, 0, 3);
    epilogue.set_bias(ai::BiasKind::Scalar, ai::kernels::VectorView{scalar.data(), 1, 1});
    REQUIRE(step_of(epilogue)->enqueue({}, nullptr).ok());
    bool complete = true;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        complete = complete && y.at(r, c) == scalar.data()[0];
      }
    }
    CHECK(complete);
    return fake_device::state().launches.back();
  };
  CHECK(launch_of(1, 8).blocks == 1);
  CHECK(launch_of(1, 8).threads == 32);
  CHECK(launch_of(3, 33).threads == 128);
  CHECK(launch_of(65536, 3).blocks == 12);
  CHECK(launch_of(2, 65537).blocks == 12);
  CHECK(launch_of(4096, 1).blocks == 12);
  CHECK(launch_of(1, 100000).blocks == 12);
}

TEST_CASE("the device is asked once for what it holds") {
  (void)fake_device::fresh_backend();
  ai::kernels::Machine machine(fake_device::api(), &fake_lt::load, 0);
  for (int i = 0; i < 2; ++i) {
    CHECK(machine.sm_count().value() == 2);
    CHECK(machine.resident_threads().value() == 3072);
  }
  CHECK(fake_device::state().attributes ==
        std::vector<cudaDeviceAttr>{cudaDevAttrMultiProcessorCount,
                                    cudaDevAttrMaxThreadsPerMultiProcessor});
}

TEST_CASE("a launch that is refused is reported, and prepare loads the kernels [A8]") {
  (void)fake_device::fresh_backend();
  const Matrix y(3, 8);
  Epilogue epilogue;
  epilogue.y = matrix_view(y.tensor());
  const auto step = step_of(epilogue);
  REQUIRE(step->prepare().ok());
  CHECK(fake_device::state().calls == std::vector<std::string>{"load", "load"});
  fake_device::state().launch_error = cudaErrorInvalidConfiguration;
  const ai::Status status = step->enqueue({}, nullptr);
  CHECK(status.code() == ai::StatusCode::CudaError);
  CHECK(status.message().find("cudaLaunchKernelExC") != std::string::npos);
}

TEST_CASE("bias elements are booked where they are: a column of a matrix has gaps") {
  (void)fake_device::fresh_backend();
  const Matrix y(3, 8), bias(3, 1, 4);
  Epilogue epilogue;
  epilogue.y = matrix_view(y.tensor());
  epilogue.set_bias(ai::BiasKind::PerM, {bias.data(), 3, 5});
  const auto step = step_of(epilogue);
  REQUIRE(step->reads().size() == 1);
  CHECK(step->reads()[0].rows == 3);
  CHECK(step->reads()[0].width == 4);
  CHECK(step->reads()[0].pitch == 20);
}

TEST_CASE("zero fill writes the elements and leaves the padding [C16]") {
  (void)fake_device::fresh_backend();
  ai::kernels::Machine machine(fake_device::api(), &fake_lt::load, 0);
  const auto fill = [&](Matrix& matrix) {
    matrix.fill(std::numeric_limits<float>::quiet_NaN());
    auto step = ai::kernels::make_zero_fill_step(machine, matrix_view(matrix.tensor()), "zero");
    REQUIRE(step.ok());
    CHECK((*step)->reads().empty());
    REQUIRE((*step)->enqueue({}, nullptr).ok());
    return fake_device::state().calls.back();
  };
  Matrix padded(3, 5, 2), packed(3, 5), row(1, 5, 2);
  CHECK(fill(padded) == "memset_2d");
  CHECK(padded.at(2, 4) == 0.0F);
  CHECK(padded.padding_is_untouched());
  CHECK(fill(packed) == "memset");
  CHECK(packed.at(2, 4) == 0.0F);
  CHECK(packed.padding_is_untouched());
  CHECK(fill(row) == "memset");
  CHECK(row.padding_is_untouched());
}

TEST_CASE("rows too far apart for a 2-D memset are zeroed by a kernel") {
  (void)fake_device::fresh_backend();
  ai::kernels::Machine machine(fake_device::api(), &fake_lt::load, 0);
  float* at = nullptr;
  const auto step =
      ai::kernels::make_zero_fill_step(machine, {at, 2, 3, std::int64_t{1} << 29}, "zero");
  REQUIRE(step.ok());
  REQUIRE((*step)->prepare().ok());
  CHECK(fake_device::state().calls.size() == 2);  // a memset would have nothing to load
}
