// The rules of Program::copy_in and copy_out.
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "ai/program.hpp"

namespace {

using ai::Device;
using ai::DType;
using ai::StatusCode;
using ai::Tensor;

std::array<float, 4096> storage;

Tensor matrix(std::int64_t rows, std::int64_t cols, std::size_t at, Device device, int index = 0) {
  return ai::make_tensor_2d(storage.data() + at, {rows, cols}, DType::F32, device, index);
}
Tensor on_host(std::int64_t rows, std::int64_t cols, std::size_t at = 0) {
  return matrix(rows, cols, at, Device::CPU);
}
Tensor on_gpu(std::int64_t rows, std::int64_t cols, std::size_t at = 2048, int index = 0) {
  return matrix(rows, cols, at, Device::CUDA, index);
}

ai::TensorDesc described(ai::Extents shape) {
  ai::TensorDesc desc;
  desc.shape = shape;
  return desc;
}

ai::GemmPlan layer(const Tensor& a, const Tensor& b, const Tensor& y) {
  const auto plan = ai::plan_forward({.A = a, .B = b, .Y = y});
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  return *plan;
}

void check_refused(const ai::Status& status, StatusCode code, const std::string& part) {
  CHECK_MESSAGE(status.code() == code, status.to_string());
  CHECK_MESSAGE(status.message().find(part) != std::string::npos, status.to_string());
}

/// Both directions refuse the pair, and leave an empty program.
void check_pair(const Tensor& host, const Tensor& device, StatusCode code, const std::string& of_in,
                const std::string& of_out) {
  ai::Program program;
  check_refused(program.copy_in(host, device), code, of_in);
  check_refused(program.copy_out(device, host), code, of_out);
  CHECK(program.empty());
}

TEST_CASE("copies keep their place among the items, and their direction") {
  ai::Program program;
  REQUIRE(program.copy_in(on_host(2, 3), on_gpu(2, 3)).ok());
  REQUIRE(program.add(layer(on_gpu(2, 3), on_gpu(3, 4, 3000), on_gpu(2, 4, 3100))).ok());
  REQUIRE(program.copy_out(on_gpu(2, 4, 3100), on_host(2, 4, 100)).ok());
  REQUIRE(program.items().size() == 3);
  const auto& in = std::get<ai::CopyStep>(program.items()[0]);
  CHECK(in.in);
  CHECK(in.from.data == storage.data());
  CHECK(in.host().data == storage.data());
  CHECK(in.device().data == storage.data() + 2048);
  const auto& out = std::get<ai::CopyStep>(program.items()[2]);
  CHECK_FALSE(out.in);
  CHECK(out.from.data == storage.data() + 3100);
  CHECK(out.host().data == storage.data() + 100);
  CHECK(out.device().data == storage.data() + 3100);
}

TEST_CASE("a copy that comes first gives the program the device of its device side") {
  ai::Program in;
  REQUIRE(in.copy_in(on_host(2, 3), on_gpu(2, 3, 2048, 1)).ok());
  CHECK(in.device() == Device::CUDA);
  CHECK(in.device_index() == 1);
  ai::Program out;
  REQUIRE(out.copy_out(on_gpu(2, 3, 2048, 1), on_host(2, 3)).ok());
  CHECK(out.device() == Device::CUDA);
  CHECK(out.device_index() == 1);
  ai::Program host;
  REQUIRE(host.copy_in(on_host(2, 3), on_host(2, 3, 2048)).ok());
  CHECK(host.device() == Device::CPU);

  ai::Program refused;
  check_refused(refused.copy_in(on_host(2, 3), on_gpu(3, 2, 2048, 1)), StatusCode::ShapeMismatch,
                "copy_in");
  CHECK(refused.add(layer(on_gpu(2, 3), on_gpu(3, 4, 3000), on_gpu(2, 4, 3100))).ok());
  CHECK(refused.device_index() == 0);  // a refused item does not fix the device
}

TEST_CASE("the host side of a copy lies on the CPU, the other on the program's device") {
  // Between two GPU tensors, whichever is called the host's.
  check_pair(on_gpu(2, 3, 0), on_gpu(2, 3), StatusCode::DeviceMismatch,
             "host of copy_in is on CUDA:0, expected CPU",
             "host of copy_out is on CUDA:0, expected CPU");
  // The two sides exchanged.
  check_pair(on_gpu(2, 3, 0), on_host(2, 3, 2048), StatusCode::DeviceMismatch, "host of copy_in",
             "host of copy_out");

  ai::Program program;
  REQUIRE(program.copy_in(on_host(2, 3), on_gpu(2, 3)).ok());
  check_refused(program.copy_in(on_host(2, 3), on_gpu(2, 3, 2048, 1)), StatusCode::DeviceMismatch,
                "device of copy_in is on CUDA:1, expected CUDA:0");
  check_refused(program.copy_out(on_host(2, 3, 2048), on_host(2, 3)), StatusCode::DeviceMismatch,
                "device of copy_out is on CPU:0, expected CUDA:0");
  // Only copies may touch host memory there.
  check_refused(program.add(layer(on_host(2, 3), on_host(3, 4, 100), on_host(2, 4, 200))),
                StatusCode::DeviceMismatch, "A is on CPU:0");
  CHECK(program.items().size() == 1);
  // CPUs are not counted.
  Tensor host = on_host(2, 3);
  host.device_index = 5;
  CHECK(program.copy_in(host, on_gpu(2, 3)).ok());
}

TEST_CASE("both sides of a copy have one dtype, any, and one shape") {
  Tensor halves = on_gpu(2, 3);
  halves.desc.dtype = DType::F16;
  check_pair(on_host(2, 3), halves, StatusCode::DtypeMismatch,
             "device of copy_in is F16, expected F32 as host",
             "device of copy_out is F16, expected F32 as host");
  check_pair(on_host(2, 3), on_gpu(2, 4), StatusCode::ShapeMismatch,
             "device of copy_in is [2,4], expected [2,3] as host",
             "device of copy_out is [2,4], expected [2,3] as host");
  // As many elements are not enough.
  check_pair(on_host(2, 3), on_gpu(3, 2), StatusCode::ShapeMismatch, "[3,2]", "[3,2]");
  const Tensor vector = ai::make_tensor_1d(storage.data() + 2048, 6);
  check_pair(on_host(1, 6), vector, StatusCode::ShapeMismatch, "[6], expected [1,6]", "[6]");

  ai::Program program;
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16, DType::I32, DType::I8}) {
    Tensor host = on_host(2, 3);
    Tensor device = on_gpu(2, 3);
    host.desc.dtype = device.desc.dtype = dtype;
    CHECK(program.copy_in(host, device).ok());
  }
}

TEST_CASE("the tensors of a copy are described as those of a plan") {
  const auto refused = [](const Tensor& host, StatusCode code, const std::string& part) {
    check_pair(host, on_gpu(2, 3), code, "host of copy_in" + part, "host of copy_out" + part);
    Tensor device = host;
    device.device = Device::CUDA;
    check_pair(on_host(2, 3), device, code, "device of copy_in" + part,
               "device of copy_out" + part);
  };
  Tensor tensor = on_host(2, 3);
  tensor.desc.shape = {2, 3, 1};
  refused(tensor, StatusCode::ShapeMismatch, " is [2,3,1] of rank 3");
  tensor = on_host(2, 3);
  tensor.desc.dtype = static_cast<DType>(77);
  refused(tensor, StatusCode::Invalid, " has dtype 77");
  tensor = on_host(2, 3);
  tensor.desc.layout = ai::Layout::ColMajor;
  refused(tensor, StatusCode::LayoutMismatch, " is ColMajor");
  tensor = on_host(2, 3);
  tensor.desc.shape = {2, -3};
  refused(tensor, StatusCode::Invalid, " is [2,-3]");
  tensor = on_host(2, 3);
  tensor.desc.stride = {2, 1};
  refused(tensor, StatusCode::StrideMismatch, " is [2,3] with strides [2,1]");
  tensor.desc.stride = {6, 2};
  refused(tensor, StatusCode::StrideMismatch, " is [2,3] with strides [6,2]");
  tensor.desc.stride = {std::int64_t{1} << 62, 1};
  refused(tensor, StatusCode::Invalid, " is [2,3] with strides");
  tensor = on_host(2, 3);
  tensor.data = nullptr;
  refused(tensor, StatusCode::Invalid, " is null");
  tensor.data = reinterpret_cast<char*>(storage.data()) + 2;
  refused(tensor, StatusCode::Invalid, " is at 0x");
}

TEST_CASE("strides of a copy's sides are free of each other, empty sides need no memory") {
  ai::Program program;
  Tensor wide = on_gpu(4, 3);
  wide.desc.stride = {7, 1};
  CHECK(program.copy_in(on_host(4, 3), wide).ok());
  CHECK(program.copy_out(wide, on_host(4, 3)).ok());
  const Tensor column =
      ai::make_tensor_1d(storage.data() + 2048, 9, DType::F32, Device::CUDA, 0, 5);
  const Tensor packed = ai::make_tensor_1d(storage.data(), 9, DType::F32, Device::CPU);
  CHECK(program.copy_in(packed, column).ok());
  const Tensor nothing = ai::make_tensor_2d(nullptr, {0, 5}, DType::F32, Device::CPU);
  CHECK(program.copy_in(nothing, ai::make_tensor_2d(nullptr, {0, 5})).ok());
  CHECK(program.items().size() == 4);
}

TEST_CASE("a copy's sides share no byte") {
  check_pair(on_host(2, 3, 0), on_host(2, 3, 5), StatusCode::Overlap,
             "device of copy_in overlaps host: [2,3] with strides [3,1] at 0x",
             "device of copy_out overlaps host: [2,3] with strides [3,1] at 0x");
  check_pair(on_host(2, 3), on_host(2, 3), StatusCode::Overlap, "overlaps", "overlaps");
  ai::Program program;
  CHECK(program.copy_in(on_host(2, 3, 0), on_host(2, 3, 6)).ok());
  Tensor left = on_host(4, 3, 0);  // the column halves of one buffer
  Tensor right = on_host(4, 3, 3);
  left.desc.stride = right.desc.stride = {6, 1};
  CHECK(program.copy_out(left, right).ok());
}

TEST_CASE("a temporary may be the device side of a copy, in the order of its use") {
  for (const Device device : {Device::CPU, Device::CUDA}) {
    ai::Program program;
    const Tensor value = *program.temporary(described({2, 3}), device);
    const Tensor host = on_host(2, 3);
    check_refused(program.copy_out(value, host), StatusCode::Invalid,
                  "device of copy_out is a temporary that is read before");
    CHECK(program.empty());
    CHECK(program.copy_in(host, value).ok());
    CHECK(program.copy_out(value, on_host(2, 3, 100)).ok());

    ai::Program other;
    check_refused(other.copy_in(host, value), StatusCode::Invalid,
                  "not within a temporary of this program");
    // What is on the host is the caller's.
    const Tensor own = *program.temporary(described({2, 3}), Device::CPU);
    check_refused(program.copy_in(own, value), StatusCode::Invalid,
                  "host of copy_in is a temporary");
    check_refused(program.copy_out(value, own), StatusCode::Invalid,
                  "host of copy_out is a temporary");
  }
}

}  // namespace
