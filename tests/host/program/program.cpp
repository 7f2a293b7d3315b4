#include "ai/program.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/run_host.hpp"

namespace {

using ai::Device;
using ai::DType;
using ai::StatusCode;

float storage[4096];

ai::Tensor matrix(std::int64_t rows, std::int64_t cols, int at, Device device = Device::CPU,
                  int index = 0) {
  return ai::make_tensor_2d(storage + at, {rows, cols}, DType::F32, device, index);
}

ai::TensorDesc described(ai::Extents shape, DType dtype = DType::F32) {
  ai::TensorDesc desc;
  desc.shape = shape;
  desc.dtype = dtype;
  return desc;
}

ai::GemmForward small_forward() {
  ai::GemmForward call;
  call.A = matrix(2, 3, 0);
  call.B = matrix(3, 4, 100);
  call.Y = matrix(2, 4, 200);
  return call;
}

ai::UserStep user_step(std::string name, std::vector<ai::Tensor> reads,
                       std::vector<ai::Tensor> writes) {
  ai::UserStep step;
  step.name = std::move(name);
  step.reads = std::move(reads);
  step.writes = std::move(writes);
  step.host = [](const ai::StepContext&) { return ai::Status(); };
  return step;
}

void check_refused(const ai::Status& status, StatusCode code, const std::string& part) {
  CHECK(status.code() == code);
  CHECK_MESSAGE(status.message().find(part) != std::string::npos, status.to_string());
}

TEST_CASE("a program keeps its items in order and takes the device of the first") {
  ai::Program program;
  CHECK(program.empty());
  CHECK(program.add(*ai::plan_forward(small_forward())).ok());
  CHECK(program.add(user_step("scale", {matrix(2, 4, 200)}, {matrix(2, 4, 200)})).ok());
  CHECK_FALSE(program.empty());
  CHECK(program.device() == Device::CPU);
  REQUIRE(program.items().size() == 2);
  CHECK(std::holds_alternative<ai::GemmPlan>(program.items()[0]));
  CHECK(std::get<ai::UserStep>(program.items()[1]).name == "scale");
}

TEST_CASE("an item on another device than the first is refused and leaves the program as it was") {
  ai::Program program;
  REQUIRE(program.add(*ai::plan_forward(small_forward())).ok());
  ai::GemmForward call;
  call.A = matrix(2, 3, 0, Device::CUDA, 1);
  call.B = matrix(3, 4, 100, Device::CUDA, 1);
  call.Y = matrix(2, 4, 200, Device::CUDA, 1);
  check_refused(program.add(*ai::plan_forward(call)), StatusCode::DeviceMismatch,
                "A is on CUDA:1, expected CPU:0");
  check_refused(
      program.add(user_step("copy", {matrix(2, 4, 0)}, {matrix(2, 4, 100, Device::CUDA)})),
      StatusCode::DeviceMismatch, "writes[0] of step copy is on CUDA:0");
  CHECK(program.items().size() == 1);

  ai::Program mixed;
  check_refused(mixed.add(user_step("copy", {matrix(2, 4, 0)}, {matrix(2, 4, 9, Device::CUDA)})),
                StatusCode::DeviceMismatch, "expected CPU:0");
  CHECK(mixed.empty());
  CHECK(mixed.add(*ai::plan_forward(call)).ok());  // a refused item does not fix the device
  CHECK(mixed.device() == Device::CUDA);
  CHECK(mixed.device_index() == 1);
}

TEST_CASE("a user step needs a name, a function and memory") {
  ai::Program program;
  check_refused(program.add(user_step("", {matrix(1, 1, 0)}, {})), StatusCode::Invalid, "no name");
  ai::UserStep idle = user_step("idle", {matrix(1, 1, 0)}, {});
  idle.host = nullptr;
  check_refused(program.add(idle), StatusCode::Invalid, "step idle has no function");
  idle.cuda = [](const ai::StepContext&) { return ai::Status(); };
  CHECK(program.add(idle).ok());
  check_refused(program.add(user_step("lost", {}, {})), StatusCode::Invalid,
                "step lost reads and writes nothing");
}

TEST_CASE("a user step's tensors are described as those of a plan, in any dtype") {
  ai::Program program;
  const auto refused = [&](const ai::Tensor& tensor, StatusCode code, const char* part) {
    check_refused(program.add(user_step("loss", {tensor}, {matrix(1, 1, 0)})), code, part);
    check_refused(program.add(user_step("loss", {matrix(1, 1, 0)}, {tensor})), code, part);
  };
  ai::Tensor tensor = matrix(2, 3, 0);
  tensor.desc.shape = {2, 3, 4};
  refused(tensor, StatusCode::ShapeMismatch, "of step loss is [2,3,4] of rank 3");
  tensor = matrix(2, 3, 0);
  tensor.desc.layout = ai::Layout::ColMajor;
  refused(tensor, StatusCode::LayoutMismatch, "ColMajor, expected RowMajor");
  tensor = matrix(2, 3, 0);
  tensor.desc.shape = {-2, 3};
  refused(tensor, StatusCode::Invalid, "[-2,3], expected no negative extent");
  tensor = matrix(2, 3, 0);
  tensor.desc.stride = {2, 1};
  refused(tensor, StatusCode::StrideMismatch, "rows that do not overlap");
  tensor.desc.stride = {1};
  refused(tensor, StatusCode::StrideMismatch, "one stride an extent");
  tensor.desc.stride = {1, 2};
  refused(tensor, StatusCode::StrideMismatch, "packed rows");
  tensor.desc.stride = {std::int64_t{1} << 62, 1};
  refused(tensor, StatusCode::Invalid, "64 bits");
  tensor = matrix(2, 3, 0);
  tensor.data = nullptr;
  refused(tensor, StatusCode::Invalid, "is null");
  tensor.data = reinterpret_cast<char*>(storage) + 2;
  refused(tensor, StatusCode::Invalid, "expected a multiple of 4");
  tensor.desc.dtype = DType::BF16;
  CHECK(program.add(user_step("halves", {tensor}, {matrix(1, 1, 0)})).ok());
  tensor.desc.dtype = static_cast<DType>(77);
  refused(tensor, StatusCode::Invalid, "dtype 77");

  ai::Tensor empty = ai::make_tensor_2d(nullptr, {0, 5}, DType::F32, Device::CPU);
  ai::Tensor row = matrix(1, 5, 0);
  row.desc.stride = {0, 1};
  CHECK(program.add(user_step("edge", {empty, row}, {matrix(1, 1, 600)})).ok());
  CHECK(program.items().size() == 2);
}

TEST_CASE("temporaries are packed, symbolic, unique and described as asked") {
  ai::Program program;
  const auto first = program.temporary(described({3, 5}), Device::CPU);
  const auto second = program.temporary(described({7}, DType::I8), Device::CPU);
  const auto empty = program.temporary(described({0, 4}), Device::CPU);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  REQUIRE(empty.ok());
  CHECK(first->desc.shape == ai::Extents{3, 5});
  CHECK(first->desc.stride == ai::Extents{5, 1});
  CHECK(second->desc.stride == ai::Extents{1});
  CHECK(first->device == Device::CPU);
  CHECK(ai::symbolic::is_symbolic(first->data));
  CHECK(first->data != second->data);
  CHECK(empty->data != first->data);
  CHECK_FALSE(ai::overlaps(ai::range_of(*first), ai::range_of(*second)));
  CHECK(program.temporaries().size() == 3);
}

TEST_CASE("temporaries that cannot exist are refused") {
  ai::Program program;
  check_refused(program.temporary(described({2, 2, 2})).status(), StatusCode::ShapeMismatch,
                "of rank 3");
  check_refused(program.temporary(described({})).status(), StatusCode::ShapeMismatch, "of rank 0");
  check_refused(program.temporary(described({2, -1})).status(), StatusCode::Invalid, "[2,-1]");
  check_refused(program.temporary(described({2}, static_cast<DType>(9))).status(),
                StatusCode::Invalid, "dtype 9");
  ai::TensorDesc columns = described({2, 2});
  columns.layout = ai::Layout::ColMajor;
  check_refused(program.temporary(columns).status(), StatusCode::LayoutMismatch, "ColMajor");
  const std::int64_t large = std::int64_t{1} << 40;
  check_refused(program.temporary(described({large, large})).status(), StatusCode::OutOfMemory,
                "at most");
  check_refused(program.temporary(described({large, 256})).status(), StatusCode::OutOfMemory,
                "at most");
  CHECK(program.temporaries().empty());
}

TEST_CASE("a temporary is written before it is read") {
  ai::Program program;
  const ai::Tensor hidden = *program.temporary(described({2, 4}), Device::CPU);
  ai::GemmForward first = small_forward();
  first.Y = hidden;
  ai::GemmForward second;
  second.A = hidden;
  second.B = matrix(4, 3, 300);
  second.Y = matrix(2, 3, 400);
  check_refused(program.add(*ai::plan_forward(second)), StatusCode::Invalid,
                "A is a temporary that is read before any item has written it");
  check_refused(program.add(user_step("peek", {hidden}, {})), StatusCode::Invalid,
                "reads[0] of step peek is a temporary that is read before");
  CHECK(program.empty());
  CHECK(program.add(*ai::plan_forward(first)).ok());
  CHECK(program.add(*ai::plan_forward(second)).ok());
  CHECK(program.add(user_step("peek", {hidden}, {})).ok());

  // What an earlier item wrote of it has to meet what is read.
  const ai::Tensor pair = *program.temporary(described({2, 8}), Device::CPU);
  ai::Tensor left = ai::make_tensor_2d(pair.data, {2, 4}, DType::F32, Device::CPU, 0, 8);
  ai::Tensor right = left;
  right.data = static_cast<float*>(pair.data) + 4;
  CHECK(program.add(user_step("fill", {}, {left})).ok());
  check_refused(program.add(user_step("peek", {right}, {})), StatusCode::Invalid, "reads[0]");
  CHECK(program.add(user_step("peek", {left}, {})).ok());
}

TEST_CASE("accumulating into a temporary, or adding C to it in place, reads it") {
  ai::Program program;
  const ai::Tensor gradient = *program.temporary(described({3, 4}), Device::CPU);
  ai::GemmBackward call;
  call.A = matrix(2, 3, 0);
  call.B = matrix(3, 4, 100);
  call.gY = matrix(2, 4, 200);
  call.gB = ai::Gradient(gradient, ai::GradMode::Accumulate);
  check_refused(program.add(*ai::plan_backward(call)), StatusCode::Invalid, "gB is a temporary");
  call.gB->mode = ai::GradMode::Overwrite;
  CHECK(program.add(*ai::plan_backward(call)).ok());
  call.gB->mode = ai::GradMode::Accumulate;
  CHECK(program.add(*ai::plan_backward(call)).ok());

  ai::GemmForward forward = small_forward();
  forward.Y = *program.temporary(described({2, 4}), Device::CPU);
  forward.C = forward.Y;
  CHECK(program.add(*ai::plan_forward(forward)).ok());  // beta = 0 reads no C
  forward.Y = *program.temporary(described({2, 4}), Device::CPU);
  forward.C = forward.Y;
  forward.attrs.beta = 1.0F;
  check_refused(program.add(*ai::plan_forward(forward)), StatusCode::Invalid, "C is a temporary");
}

TEST_CASE("a temporary of another program, or memory beside one, is refused") {
  ai::Program program;
  ai::Program other;
  const ai::Tensor mine = *program.temporary(described({2, 4}), Device::CPU);
  const ai::Tensor foreign = *other.temporary(described({2, 4}), Device::CPU);
  check_refused(program.add(user_step("fill", {}, {foreign})), StatusCode::Invalid,
                "not within a temporary of this program");
  ai::Tensor longer = mine;
  longer.desc.shape = {3, 4};
  check_refused(program.add(user_step("fill", {}, {longer})), StatusCode::Invalid,
                "not within a temporary of this program");
  ai::GemmForward call = small_forward();
  call.Y = foreign;
  check_refused(program.add(*ai::plan_forward(call)), StatusCode::Invalid, "Y is at 0x1");
  CHECK(program.empty());

  ai::Program copy = program;  // a copy has the same temporaries
  CHECK(copy.add(user_step("fill", {}, {mine})).ok());
  check_refused(program.add(user_step("peek", {mine}, {})), StatusCode::Invalid, "before any item");
}

bool holds(const std::vector<ai::Tensor>& tensors, const ai::Tensor& wanted) {
  for (const ai::Tensor& tensor : tensors) {
    if (tensor.data == wanted.data) return true;
  }
  return false;
}

TEST_CASE("inputs and outputs of a forward plan are what it reads and writes") {
  ai::GemmForward call = small_forward();
  call.C = matrix(2, 4, 300);
  call.bias = matrix(1, 4, 400);
  call.Z = matrix(2, 4, 500);
  call.attrs.beta = 1.0F;
  const auto inputs = [&] { return ai::inputs_of(*ai::plan_forward(call)); };
  CHECK(inputs().size() == 4);
  const auto outputs = ai::outputs_of(*ai::plan_forward(call));
  CHECK(outputs.size() == 2);
  CHECK(holds(outputs, call.Y));
  CHECK(holds(outputs, *call.Z));
  call.attrs.beta = 0.0F;
  CHECK_FALSE(holds(inputs(), *call.C));
  call.attrs.alpha = 0.0F;
  CHECK(inputs().size() == 1);
  CHECK(holds(inputs(), *call.bias));
}

TEST_CASE("inputs and outputs of a backward plan are what it reads and writes") {
  ai::GemmBackward call;
  call.A = matrix(2, 3, 0);
  call.B = matrix(3, 4, 100);
  call.C = matrix(2, 4, 200);
  call.gY = matrix(2, 4, 300);
  call.Z = matrix(2, 4, 400);
  call.gA = ai::Gradient(matrix(2, 3, 500));
  call.gC = ai::Gradient(matrix(2, 4, 600));
  call.attrs.act = ai::ActKind::ReLU;
  auto inputs = ai::inputs_of(*ai::plan_backward(call));
  CHECK(inputs.size() == 3);  // B for gA, gY, Z; never C, nor A without gB
  CHECK_FALSE(holds(inputs, *call.C));
  CHECK_FALSE(holds(inputs, call.A));
  CHECK(ai::outputs_of(*ai::plan_backward(call)).size() == 2);
  call.gB = ai::Gradient(matrix(3, 4, 700), ai::GradMode::Accumulate);
  call.gBias = ai::Gradient(matrix(1, 4, 800), ai::GradMode::Accumulate);
  call.attrs.act = ai::ActKind::None;
  inputs = ai::inputs_of(*ai::plan_backward(call));
  CHECK(holds(inputs, call.A));
  CHECK(holds(inputs, call.gB->tensor));
  CHECK(holds(inputs, call.gBias->tensor));
  CHECK_FALSE(holds(inputs, *call.Z));
  CHECK(ai::outputs_of(*ai::plan_backward(call)).size() == 4);
}

TEST_CASE("a two-layer program with a temporary and a user step computes what its items say") {
  // h = relu(x W1), h *= 2 by the user, y = h W2, with h in storage of the library's own.
  const float x[] = {1, -2};
  const float w1[] = {1, 2, 3, 1, 1, 1};
  const float w2[] = {1, 10, 100};
  float y[] = {0};
  const auto cpu = [](const float* data, std::int64_t rows, std::int64_t cols) {
    return ai::make_tensor_2d(data, {rows, cols}, DType::F32, Device::CPU);
  };
  ai::Program program;
  const ai::Tensor hidden = *program.temporary(described({1, 3}), Device::CPU);
  ai::GemmForward first;
  first.A = cpu(x, 1, 2);
  first.B = cpu(w1, 2, 3);
  first.Y = hidden;
  first.attrs.act = ai::ActKind::ReLU;
  ai::GemmForward second;
  second.A = hidden;
  second.B = cpu(w2, 3, 1);
  second.Y = cpu(y, 1, 1);
  ai::UserStep twice = user_step("twice", {hidden}, {hidden});
  twice.host = [](const ai::StepContext& context) {
    auto* values = static_cast<float*>(context.writes[0].data);
    for (int i = 0; i < 3; ++i) values[i] *= 2;
    return context.reads[0].data == context.writes[0].data
               ? ai::Status()
               : ai::Status(StatusCode::Invalid, "reads and writes are mapped apart");
  };
  REQUIRE(program.add(*ai::plan_forward(first)).ok());
  REQUIRE(program.add(twice).ok());
  REQUIRE(program.add(*ai::plan_forward(second)).ok());
  REQUIRE(support::run_on_host(program).ok());
  CHECK(y[0] == 200.0F);  // relu(-1, 0, 1) * 2 = (0, 0, 2)
  y[0] = 0;
  REQUIRE(support::run_on_host(program, support::Order::Late).ok());
  CHECK(y[0] == 200.0F);
}

}  // namespace
