// Copies between host memory and the device, recorded in a graph.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "capture/copy_step.hpp"
#include "fake_program.hpp"

namespace ai::test {
namespace {

constexpr std::int64_t kLargestPitch = std::numeric_limits<std::int32_t>::max();

FakeBackend gemm_backend(FakeCuda& fake) {
  return FakeBackend([&fake](const GemmPlan& plan) {
    return std::vector<Task>{{"forward", {candidate("gemm", gemm_step(fake, plan, "gemm", 1.0))}}};
  });
}

FakeBackend no_backend() {
  return FakeBackend([](const GemmPlan&) { return std::vector<Task>{}; });
}

/// A matrix of the fake's with a gap of `ld - cols` behind each row, every float of it `value`.
Tensor matrix(FakeCuda& fake, Device device, std::int64_t rows, std::int64_t cols,
              std::int64_t ld = 0, float value = -1.0F) {
  ld = ld == 0 ? cols : ld;
  const auto count = static_cast<std::size_t>(rows * ld);
  const auto type = device == Device::CPU ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  auto* const data = static_cast<float*>(fake.operand(count * sizeof(float), 0, type));
  std::fill(data, data + count, value);
  return make_tensor_2d(data, {rows, cols}, DType::F32, device, 0, ld);
}

float& at(const Tensor& tensor, std::int64_t row, std::int64_t col = 0) {
  return static_cast<float*>(tensor.data)[row * tensor.desc.stride[0] + col];
}

void number(const Tensor& tensor) {
  for (std::int64_t r = 0; r < tensor.desc.shape[0]; ++r) {
    const std::int64_t cols = tensor.desc.shape.rank() == 2 ? tensor.desc.shape[1] : 1;
    for (std::int64_t c = 0; c < cols; ++c) at(tensor, r, c) = static_cast<float>(100 * r + c);
  }
}

Executable captured(FakeCuda& fake, Backend& backend, const Program& program,
                    bool measure = false) {
  Result<Executable> executable = capture_fake(fake, backend, program, measure);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  return std::move(*executable);
}

Status refusal(FakeCuda& fake, const Program& program) {
  FakeBackend backend = no_backend();
  return capture_fake(fake, backend, program).status();
}

/// Input and output of a layer through pinned memory.
struct ControlStep {
  explicit ControlStep(FakeCuda& fake)
      : layer(fake, 2, 2, 3),
        in(matrix(fake, Device::CPU, 2, 3)),
        out(matrix(fake, Device::CPU, 2, 2)) {
    REQUIRE(program.copy_in(in, layer.call.A).ok());
    REQUIRE(program.add(layer.plan()).ok());
    REQUIRE(program.copy_out(layer.call.Y, out).ok());
  }
  Layer layer;
  Tensor in;
  Tensor out;
  Program program;
};

TEST_CASE("B5: a replay takes what lies at the host address when it runs") {
  FakeCuda fake;
  {
    ControlStep step(fake);
    FakeBackend backend = gemm_backend(fake);
    Layer::fill(step.in, 7.0F);
    Executable executable = captured(fake, backend, step.program);
    CHECK(at(step.layer.call.A, 0) == 1.0F);  // a capture copies nothing
    CHECK(at(step.out, 0) == -1.0F);
    const Stream stream = fake.make_stream();
    for (const float value : {1.0F, 5.0F, 0.5F}) {
      Layer::fill(step.in, value);
      REQUIRE(executable.launch(stream).ok());
      REQUIRE(executable.wait().ok());
      CHECK(at(step.out, 1, 1) == 3 * 2 * value);
    }
    Layer::fill(step.in, 2.0F);
    REQUIRE(executable.enqueue(stream).ok());
    CHECK(at(step.out, 0) == 12.0F);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("copies are memcpy nodes, named, in the order of their data") {
  FakeCuda fake;
  ControlStep step(fake);
  FakeBackend backend = gemm_backend(fake);
  const Executable executable = captured(fake, backend, step.program);
  const std::vector<Node>& nodes = executable.nodes();
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[0].name == "copy_in [2,3]");
  CHECK(nodes[0].kind == "memcpy");
  CHECK(nodes[0].depends_on.empty());
  CHECK(nodes[1].kind == "kernel");
  CHECK(nodes[1].depends_on == std::vector<int>{0});
  CHECK(nodes[2].name == "copy_out [2,2]");
  CHECK(nodes[2].kind == "memcpy");
  CHECK(nodes[2].depends_on == std::vector<int>{1});
}

TEST_CASE("a copy through host memory is ordered by it, others run at the same time") {
  FakeCuda fake;
  const Tensor a = matrix(fake, Device::CUDA, 2, 3);
  const Tensor b = matrix(fake, Device::CUDA, 2, 3);
  const Tensor c = matrix(fake, Device::CUDA, 2, 3);
  const Tensor shared = matrix(fake, Device::CPU, 2, 3);
  const Tensor other = matrix(fake, Device::CPU, 2, 3, 0, 4.0F);
  number(a);
  Program program;
  REQUIRE(program.copy_out(a, shared).ok());
  REQUIRE(program.copy_in(other, c).ok());
  REQUIRE(program.copy_in(shared, b).ok());
  REQUIRE(program.copy_out(c, shared).ok());
  FakeBackend backend = no_backend();
  Executable executable = captured(fake, backend, program);
  REQUIRE(executable.nodes().size() == 4);
  CHECK(executable.nodes()[1].depends_on.empty());
  CHECK(executable.nodes()[2].depends_on == std::vector<int>{0});
  CHECK(executable.nodes()[3].depends_on == std::vector<int>{1, 2});
  REQUIRE(executable.launch(fake.make_stream()).ok());
  CHECK(at(b, 1, 2) == 102.0F);
  CHECK(at(shared, 1, 2) == 4.0F);
}

TEST_CASE("strided sides go in one 2-D copy and leave the padding alone") {
  FakeCuda fake;
  const auto copied = [&](const Tensor& from, const Tensor& to, bool in, const char* function) {
    number(from);
    Program program;
    REQUIRE((in ? program.copy_in(from, to) : program.copy_out(from, to)).ok());
    FakeBackend backend = no_backend();
    Executable executable = captured(fake, backend, program);
    REQUIRE(executable.nodes().size() == 1);
    CHECK(executable.nodes()[0].kind == "memcpy");
    fake.forget_calls();
    REQUIRE(executable.enqueue(fake.make_stream()).ok());
    CHECK(fake.count(function) == 1);
    CHECK(fake.count("memcpy_async") + fake.count("memcpy_2d_async") == 1);
    const std::int64_t cols = to.desc.shape.rank() == 2 ? to.desc.shape[1] : 1;
    for (std::int64_t r = 0; r < to.desc.shape[0]; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        REQUIRE(at(to, r, c) == static_cast<float>(100 * r + c));
      }
      if (r + 1 == to.desc.shape[0]) break;
      for (std::int64_t c = cols; c < to.desc.stride[0]; ++c) REQUIRE(at(to, r, c) == -1.0F);
    }
  };
  for (const bool in : {true, false}) {
    CAPTURE(in);
    const Device from = in ? Device::CPU : Device::CUDA;
    const Device to = in ? Device::CUDA : Device::CPU;
    copied(matrix(fake, from, 5, 4), matrix(fake, to, 5, 4), in, "memcpy_async");
    copied(matrix(fake, from, 5, 4), matrix(fake, to, 5, 4, 7), in, "memcpy_2d_async");
    copied(matrix(fake, from, 5, 4, 9), matrix(fake, to, 5, 4), in, "memcpy_2d_async");
    copied(matrix(fake, from, 5, 4, 9), matrix(fake, to, 5, 4, 6), in, "memcpy_2d_async");
    copied(matrix(fake, from, 1, 4, 9), matrix(fake, to, 1, 4, 6), in, "memcpy_async");
    // A column, as a bias may be one.
    const auto column = [&](Device device, std::int64_t stride) {
      const Tensor block = matrix(fake, device, 6, 1, stride);
      return make_tensor_1d(block.data, 6, DType::F32, device, 0, stride);
    };
    copied(column(from, 1), column(to, 1), in, "memcpy_async");
    copied(column(from, 1), column(to, 4), in, "memcpy_2d_async");
    copied(column(from, 3), column(to, 5), in, "memcpy_2d_async");
  }
}

TEST_CASE("an empty copy is no node and passes its dependencies on") {
  FakeCuda fake;
  ControlStep step(fake);
  const Tensor nothing = make_tensor_2d(nullptr, {0, 4}, DType::F32, Device::CPU);
  Program program;
  REQUIRE(program.copy_in(nothing, make_tensor_2d(nullptr, {0, 4})).ok());
  for (const Program::Item& item : step.program.items()) {
    if (const auto* copy = std::get_if<CopyStep>(&item)) {
      REQUIRE((copy->in ? program.copy_in(copy->from, copy->to)
                        : program.copy_out(copy->from, copy->to))
                  .ok());
    } else {
      REQUIRE(program.add(std::get<GemmPlan>(item)).ok());
    }
    REQUIRE(program.copy_out(make_tensor_2d(nullptr, {0, 4}), nothing).ok());
  }
  FakeBackend backend = gemm_backend(fake);
  Executable executable = captured(fake, backend, program);
  CHECK(executable.nodes().size() == 3);
  CHECK(executable.nodes()[2].depends_on == std::vector<int>{1});
  Layer::fill(step.in, 3.0F);
  REQUIRE(executable.launch(fake.make_stream()).ok());
  CHECK(at(step.out, 1, 1) == 18.0F);
}

TEST_CASE("a program of nothing but an empty copy can be captured and launched") {
  FakeCuda fake;
  const Tensor nothing = make_tensor_2d(nullptr, {3, 0}, DType::F32, Device::CPU);
  Program program;
  REQUIRE(program.copy_in(nothing, make_tensor_2d(nullptr, {3, 0})).ok());
  FakeBackend backend = no_backend();
  Executable executable = captured(fake, backend, program);
  CHECK(executable.nodes().empty());
  CHECK(executable.launch(fake.make_stream()).ok());
  CHECK(executable.wait().ok());
}

TEST_CASE("copies from and to temporaries") {
  FakeCuda fake;
  ControlStep step(fake);
  Program program;
  const Tensor a = *program.temporary(step.layer.call.A.desc);
  const Tensor y = *program.temporary(step.layer.call.Y.desc);
  REQUIRE(program.copy_in(step.in, a).ok());
  step.layer.call.A = a;
  step.layer.call.Y = y;
  REQUIRE(program.add(step.layer.plan()).ok());
  REQUIRE(program.copy_out(y, step.out).ok());
  FakeBackend backend = gemm_backend(fake);
  Executable executable = captured(fake, backend, program);
  CHECK(executable.workspace_bytes() > 0);
  Layer::fill(step.in, 2.0F);
  REQUIRE(executable.launch(fake.make_stream()).ok());
  CHECK(at(step.out, 1, 1) == 12.0F);
}

TEST_CASE("B5: the host side of a copy must be pinned, from its first byte to its last") {
  FakeCuda fake;
  const Tensor device = matrix(fake, Device::CUDA, 2, 3);
  const auto check = [&](const Tensor& host, const std::string& place) {
    Program in;
    REQUIRE(in.copy_in(host, device).ok());
    Status status = refusal(fake, in);
    CHECK(status.code() == StatusCode::DeviceMismatch);
    CHECK_MESSAGE(
        status.message() == "host of copy_in [2,3] points to " + place +
                                ", expected pinned host memory (cudaHostAlloc, cudaHostRegister)",
        status.message());
    Program out;
    REQUIRE(out.copy_out(device, host).ok());
    status = refusal(fake, out);
    CHECK(status.code() == StatusCode::DeviceMismatch);
    CHECK_MESSAGE(status.message().starts_with("host of copy_out [2,3] points to " + place),
                  status.message());
  };
  float pageable[6] = {};
  Tensor host = make_tensor_2d(pageable, {2, 3}, DType::F32, Device::CPU);
  check(host, "memory that CUDA does not know (host memory, or freed)");
  host.data = fake.operand(24, 0, cudaMemoryTypeManaged);
  check(host, "managed memory of device 0");
  host.data = fake.operand(24, 0);
  check(host, "memory of device 0");

  host.data = fake.operand(20, 0, cudaMemoryTypeHost);  // one float short
  Program program;
  REQUIRE(program.copy_in(host, device).ok());
  const Status status = refusal(fake, program);
  CHECK(status.code() == StatusCode::DeviceMismatch);
  CHECK_MESSAGE(status.message().find("ends before the tensor does") != std::string::npos,
                status.message());
  CHECK(settled(fake) == "");
}

TEST_CASE("the device side of a copy is device memory of the program's device") {
  FakeCuda fake;
  const Tensor host = matrix(fake, Device::CPU, 2, 3);
  const auto message = [&](void* data) {
    Program program;
    REQUIRE(program.copy_in(host, make_tensor_2d(data, {2, 3})).ok());
    return refusal(fake, program).to_string();
  };
  CHECK(message(fake.operand(24, 0, cudaMemoryTypeHost)) ==
        "DeviceMismatch: device of copy_in [2,3] points to pinned host memory, expected memory of "
        "device 0");
  CHECK(message(fake.operand(24, 1)) ==
        "DeviceMismatch: device of copy_in [2,3] points to memory of device 1, expected memory of "
        "device 0");
  CHECK(message(fake.operand(24, 0, cudaMemoryTypeManaged)) == "Ok");
}

TEST_CASE("rows farther apart than a 2-D copy can have them are refused at capture") {
  FakeCuda fake;
  void* const some = fake.operand(4);
  const auto made = [&](std::int64_t host_ld, std::int64_t device_ld, bool in = true) {
    const auto side = [&](Device device, std::int64_t ld) {
      return make_tensor_2d(some, {3, 5}, DType::I8, device, 0, ld);
    };
    const Tensor host = side(Device::CPU, host_ld);
    const Tensor device = side(Device::CUDA, device_ld);
    return detail::make_cuda_copy(FakeCuda::api(),
                                  in ? CopyStep{host, device, true} : CopyStep{device, host, false})
        .status();
  };
  CHECK(made(kLargestPitch, 5).ok());
  CHECK(made(5, kLargestPitch).ok());
  CHECK(made(kLargestPitch + 1, 5).to_string() ==
        "Unsupported: host of copy_in [3,5] has rows 2147483648 bytes apart, expected at most "
        "2147483647 (the most of a 2-D copy)");
  const Status out = made(5, kLargestPitch + 1, false);
  CHECK(out.code() == StatusCode::Unsupported);
  CHECK(out.message().starts_with("device of copy_out [3,5]"));
}

TEST_CASE("what is contiguous is one 1-D copy, whatever its size") {
  FakeCuda fake;
  void* const some = fake.operand(4);
  for (const std::int64_t rows : {std::int64_t{2}, std::int64_t{1}}) {
    const Extents shape{rows, 3 * kLargestPitch};
    CopyStep copy;
    copy.from = make_tensor_2d(some, shape, DType::I8, Device::CPU);
    copy.to = make_tensor_2d(some, shape, DType::I8);
    if (rows == 1) copy.to.desc.stride = {4 * kLargestPitch, 1};  // means nothing
    const auto step = detail::make_cuda_copy(FakeCuda::api(), copy);
    REQUIRE_MESSAGE(step.ok(), step.status().to_string());
    const Stream stream = fake.make_stream();
    fake.begin_capture(stream);  // so that it is not done
    fake.forget_calls();
    CHECK((*step)->enqueue({}, stream).ok());
    CHECK(fake.count("memcpy_async") == 1);
    CHECK(fake.count("memcpy_2d_async") == 0);
    (void)fake.end_capture(stream);
  }
}

TEST_CASE("the tuner passes copies by") {
  FakeCuda fake;
  {
    ControlStep step(fake);
    REQUIRE(step.program.copy_in(step.in, matrix(fake, Device::CUDA, 2, 3)).ok());
    const float before = at(step.layer.call.A, 0);
    Layer::fill(step.in, 9.0F);
    FakeBackend backend([&fake](const GemmPlan& plan) {
      return std::vector<Task>{{"forward",
                                {candidate("slow", gemm_step(fake, plan, "slow", 5.0)),
                                 candidate("quick", gemm_step(fake, plan, "quick", 1.0))}}};
    });
    const Executable executable = captured(fake, backend, step.program, true);
    CHECK(at(step.layer.call.A, 0) == before);
    CHECK(executable.nodes()[1].name == "quick");
    CHECK(executable.explain().find("copy") == std::string::npos);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("A6: a copy that cannot be recorded is named, and nothing is left over") {
  for (const bool wide : {false, true}) {
    FakeCuda fake;
    const Tensor host = matrix(fake, Device::CPU, 2, 3, wide ? 5 : 3);
    Program program;
    REQUIRE(program.copy_out(matrix(fake, Device::CUDA, 2, 3), host).ok());
    fake.fail(wide ? "memcpy_2d_async" : "memcpy_async", 1, cudaErrorUnknown);
    const std::string call = wide ? "cudaMemcpy2DAsync" : "cudaMemcpyAsync";
    const Status status = refusal(fake, program);
    CHECK(status.code() == StatusCode::CudaError);
    CHECK_MESSAGE(status.message().find("copy_out [2,3]") != std::string::npos, status.message());
    CHECK_MESSAGE(status.message().find(call) != std::string::npos, status.message());
    CHECK(settled(fake) == "");
  }
}

}  // namespace
}  // namespace ai::test
