#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "movable_program.hpp"

namespace ai::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST_CASE("B4: a rebind moves the input; without one the captured buffer's content counts") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    Layer::fill(p.first.call.A, 3.0F);
    CHECK(launched(fake, executable, p.y) == expected_y(3));

    float* const other = p.buffer(6, 2.0F);
    const Status status = executable.rebind({{p.x, other}});
    REQUIRE_MESSAGE(status.ok(), status.to_string());
    Layer::fill(p.first.call.A, kNaN);
    CHECK(launched(fake, executable, p.y) == expected_y(2));
    std::fill_n(other, 6, 5.0F);
    CHECK(launched(fake, executable, p.y) == expected_y(5));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a rebind updates the graph in place: nothing is allocated, planned or waited for") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    const std::string explained = executable.explain();
    float* const other = p.buffer(6, 2.0F);
    REQUIRE(executable.rebind({{p.x, other}}).ok());  // the first makes a stream
    p.lowered = 0;
    fake.forget_calls();
    REQUIRE(executable.rebind({{other, p.x}}).ok());
    CHECK(p.lowered == 0);
    CHECK(fake.count("graph_exec_update") == 1);
    CHECK(fake.count("graph_create") == 1);
    for (const char* call :
         {"graph_instantiate", "malloc_from_pool_async", "stream_synchronize", "graph_launch",
          "stream_create_with_flags", "graph_node_get_type", "graph_get_edges"}) {
      CHECK_MESSAGE(fake.count(call) == 0, call);
    }
    CHECK(fake.count("pointer_get_attributes") == 1);  // of what moved alone
    CHECK(executable.explain() == explained);
    CHECK(executable.nodes().size() == 5);
    CHECK(launched(fake, executable, p.y) == expected_y(1));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("operands() names what lies outside the library, in order, at its present place") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    std::string text;
    for (const BoundOperand& operand : executable.operands()) {
      text += operand.item + " " + operand.name + "; ";
      CHECK(!symbolic::is_symbolic(operand.tensor.data));
    }
    CHECK(text == "forward Y[2,4] A; forward Y[2,4] B; forward Y[2,2] B; forward Y[2,2] Y; ");
    std::string written;
    for (const BoundOperand& operand : executable.operands()) {
      if (operand.is_written) written += operand.item + " " + operand.name + "; ";
    }
    CHECK(written == "forward Y[2,2] Y; ");
    float* const other = p.buffer(6, 2.0F);
    REQUIRE(executable.rebind({{p.x, other}}).ok());
    CHECK(executable.operands()[0].tensor.data == other);
    CHECK(executable.operands()[0].tensor.desc.shape == Extents{2, 3});
    CHECK(executable.operands().size() == 4);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a rebind that cannot be is refused by name, and changes nothing") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    const Result<Tensor> temporary = p.program.temporary(p.first.call.A.desc);
    REQUIRE(temporary.ok());
    float* const other = p.buffer(6, 2.0F);
    float* const b = static_cast<float*>(p.first.call.B.data);
    float host[6] = {};
    const auto refused = [&](std::initializer_list<Rebinding> moves, StatusCode code,
                             const std::string& part) {
      const Status status = executable.rebind(moves);
      CAPTURE(part);
      CHECK_MESSAGE(status.code() == code, status.to_string());
      CHECK_MESSAGE(says(status, part), status.to_string());
      CHECK(executable.clone(moves).status().code() == code);
      CHECK(operand_at(executable, p.x) != nullptr);
      CHECK(operand_at(executable, other) == nullptr);
      CHECK(launched(fake, executable, p.y) == expected_y(1));
    };
    const StatusCode invalid = StatusCode::Invalid;
    refused({{other, p.x}}, invalid, "no operand begins at 0x");
    refused({{p.x, other}, {other, p.x}}, invalid, "no operand begins at 0x");
    refused({{static_cast<char*>(p.x) + 4, other}}, invalid, "no operand begins");
    refused({{p.x, nullptr}}, invalid, "A of forward Y[2,4] is to move to null");
    refused({{nullptr, other}}, invalid, "no operand begins at 0x0");
    refused({{p.first.call.Y.data, other}}, invalid, "the library's own");
    refused({{p.x, temporary->data}}, invalid, "a temporary");
    refused({{p.x, other, 20}}, invalid, "A of forward Y[2,4] begins in the 20 bytes");
    refused({{p.x, other}, {p.x, other + 1}}, invalid, "expected one place");
    refused({{p.x, reinterpret_cast<char*>(other) + 2}}, invalid, "forward Y[2,4]: A");
    refused({{p.x, host}}, StatusCode::DeviceMismatch, "A of forward Y[2,4] points to memory");
    refused({{p.x, fake.operand(24, 1)}}, StatusCode::DeviceMismatch, "memory of device 1");
    refused({{p.y, p.second.call.B.data}}, StatusCode::Overlap, "forward Y[2,2]: Y overlaps B");
    refused({{p.x, other}, {p.y, p.second.call.B.data}}, StatusCode::Overlap, "overlaps");
    CHECK(executable.rebind({{p.x, b}}).ok());  // inputs may share memory
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("an arena moves as a whole, each operand at its distance") {
  FakeCuda fake;
  float* const arena = static_cast<float*>(fake.operand(1024));
  float* const next = static_cast<float*>(fake.operand(1024));
  MovableProgram p(fake);
  Layer layer(fake, 2, 2, 3);
  layer.call.A.data = arena;
  layer.call.B.data = arena + 64;
  layer.call.Y.data = arena + 128;
  Program program;
  REQUIRE(program.add(layer.plan()).ok());
  std::fill_n(arena, 256, 1.0F);
  std::fill_n(next, 256, 2.0F);
  {
    Result<Executable> executable = capture_fake(fake, p.backend, program);
    REQUIRE(executable.ok());
    CHECK(launched(fake, *executable, arena + 128) == 3.0F);
    CHECK(executable->rebind({{arena, next, 528 - 4}}).code() == StatusCode::Invalid);
    REQUIRE(executable->rebind({{arena, next, 528}}).ok());
    std::fill_n(arena, 256, kNaN);
    CHECK(launched(fake, *executable, next + 128) == 12.0F);
    CHECK(std::isnan(arena[128]));
    CHECK(operand_at(*executable, next + 64)->name == "B");
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("two buffers change places in one call, again and again") {
  FakeCuda fake;
  MovableProgram p(fake);
  Layer layer(fake, 2, 2, 2);
  Program program;
  REQUIRE(program.add(layer.plan()).ok());
  auto* const a = static_cast<float*>(layer.call.A.data);
  auto* const y = static_cast<float*>(layer.call.Y.data);
  {
    Result<Executable> executable = capture_fake(fake, p.backend, program);
    REQUIRE(executable.ok());
    const std::size_t bytes = fake.pool_bytes();
    p.lowered = 0;
    float* from = a;
    float* to = y;
    for (int i = 0; i < 10; ++i) {
      std::fill_n(from, 4, static_cast<float>(i));
      CHECK(launched(fake, *executable, to) == static_cast<float>(4 * i));
      REQUIRE(executable->rebind({{a, y}, {y, a}}).ok());
      std::swap(from, to);
    }
    CHECK(p.lowered == 0);
    CHECK(fake.pool_bytes() == bytes);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B6: an operand that is less aligned gets another kernel, and the last error is clean") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    CHECK(executable.nodes()[1].name == "wide");
    p.lowered = 0;
    float* const odd = p.buffer(6, 2.0F, 1);
    REQUIRE(executable.rebind({{p.x, odd}}).ok());
    CHECK(p.lowered == 1);  // the first layer alone
    CHECK(fake.last_error == cudaSuccess);
    CHECK(executable.nodes()[0].name == "narrow");
    CHECK(executable.nodes().back().name == "wide");
    CHECK(executable.explain().find("* narrow") != std::string::npos);
    CHECK(executable.explain().find("it loads in fours") != std::string::npos);
    CHECK(executable.explain().find("when its operands moved") != std::string::npos);
    CHECK(launched(fake, executable, p.y) == expected_y(2));
    // It keeps what it has now: only less than that is planned anew.
    REQUIRE(executable.rebind({{odd, p.x}}).ok());
    CHECK(p.lowered == 1);
    CHECK(launched(fake, executable, p.y) == expected_y(1));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a step that is planned anew prefers the candidate that it had") {
  FakeCuda fake;
  const Layer layer(fake, 2, 2, 2);
  bool knows_best = true;
  FakeBackend backend([&](const GemmPlan& plan) {
    Task task{"forward", {}};
    if (knows_best) {
      task.candidates.push_back(candidate("pinned", gemm_step(fake, plan, "pinned", 1)));
    } else {
      task.candidates.push_back(candidate("first", gemm_step(fake, plan, "first", 1)));
      task.candidates.push_back(candidate("pinned", gemm_step(fake, plan, "pinned", 1)));
    }
    return std::vector<Task>{task};
  });
  Program program;
  REQUIRE(program.add(layer.plan()).ok());
  {
    Result<Executable> executable = capture_fake(fake, backend, program);
    REQUIRE(executable.ok());
    knows_best = false;
    auto* const odd = static_cast<float*>(fake.operand(64)) + 1;
    std::fill_n(odd, 4, 5.0F);
    REQUIRE(executable->rebind({{layer.call.A.data, odd}}).ok());
    CHECK(executable->nodes()[0].name == "pinned");
    CHECK(launched(fake, *executable, layer.call.Y.data) == 20.0F);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("C in the place of Y is planned anew when it leaves it, not when both move") {
  FakeCuda fake;
  MovableProgram p(fake);
  Layer layer(fake, 2, 2, 2);
  layer.call.C = layer.call.Y;
  layer.call.attrs.beta = 1.0F;
  Program program;
  REQUIRE(program.add(layer.plan()).ok());
  {
    Result<Executable> executable = capture_fake(fake, p.backend, program);
    REQUIRE(executable.ok());
    p.lowered = 0;
    float* const other = p.buffer(4, 0);
    REQUIRE(executable->rebind({{layer.call.Y.data, other}}).ok());
    CHECK(p.lowered == 0);
    CHECK(executable->operands()[2].name == "C");
    CHECK(executable->operands()[2].tensor.data == other);
    CHECK(executable->operands()[3].tensor.data == other);
    CHECK(launched(fake, *executable, other) == 4.0F);
    // A comes to lie where B is: a sharing that the steps did not know of.
    REQUIRE(executable->rebind({{layer.call.A.data, layer.call.B.data}}).ok());
    CHECK(p.lowered == 1);
    CHECK(launched(fake, *executable, other) == 8.0F);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a move that makes one step wait for another makes the graph anew") {
  FakeCuda fake;
  MovableProgram p(fake);
  const Layer one(fake, 2, 2, 2);
  const Layer two(fake, 2, 2, 2);
  Program program;
  REQUIRE(program.add(one.plan()).ok());
  REQUIRE(program.add(two.plan()).ok());
  {
    Result<Executable> executable = capture_fake(fake, p.backend, program);
    REQUIRE(executable.ok());
    CHECK(executable->nodes().back().depends_on.size() == 0);
    fake.forget_calls();
    REQUIRE(executable->rebind({{two.call.A.data, one.call.Y.data}}).ok());
    CHECK(fake.count("graph_instantiate") == 1);
    CHECK(executable->nodes().back().depends_on == std::vector<int>{1});
    CHECK(executable->dot().find("n1 -> n3") != std::string::npos);
    CHECK(launched(fake, *executable, two.call.Y.data) == 16.0F);
  }
  CHECK(settled(fake) == "");
}

/// A column half of a [2,8] buffer.
Tensor half(float* buffer, int which) {
  return make_tensor_2d(buffer + 4 * which, {2, 4}, DType::F32, Device::CUDA, 0, 8);
}

TEST_CASE("one of two interleaved views of a buffer moves, within one item or between two") {
  FakeCuda fake;
  MovableProgram p(fake);
  float* const buffer = p.buffer(16, 1.0F);
  float* const other = p.buffer(16, 3.0F);
  Layer layer(fake, 2, 2, 4);
  layer.call.A = half(buffer, 0);
  Layer next(fake, 2, 4, 2);
  next.call.A = layer.call.Y;
  bool within = false;
  SUBCASE("within one item") {
    within = true;
    layer = Layer(fake, 2, 4, 4);
    layer.call.A = half(buffer, 0);
    layer.call.Y = half(buffer, 1);
  }
  SUBCASE("between two") {
    next.call.Y = half(buffer, 1);
  }
  Program program;
  REQUIRE(program.add(layer.plan()).ok());
  if (!within) REQUIRE(program.add(next.plan()).ok());
  {
    Result<Executable> executable = capture_fake(fake, p.backend, program);
    REQUIRE(executable.ok());
    p.lowered = 0;
    REQUIRE(executable->rebind({{buffer, other}}).ok());
    CHECK(p.lowered == (within ? 1 : 0));
    std::fill_n(buffer, 4, kNaN);
    CHECK(launched(fake, *executable, buffer + 4) == (within ? 24.0F : 24.0F * 4));
    CHECK(other[4] == 3.0F);
    REQUIRE(executable->rebind({{buffer + 4, other + 4}}).ok());
    CHECK(launched(fake, *executable, other + 4) == (within ? 24.0F : 24.0F * 4));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("user steps are handed their moved tensors, also by enqueue") {
  FakeCuda fake;
  float* const memory = static_cast<float*>(fake.operand(64));
  float* const other = static_cast<float*>(fake.operand(64));
  UserStep step;
  step.name = "set";
  step.reads = {make_tensor_2d(memory, {1, 4}), make_tensor_2d(nullptr, {0, 4})};
  step.writes = {make_tensor_2d(memory + 8, {1, 4})};
  const void* seen[3] = {};
  step.cuda = [&](const StepContext& context) -> Status {
    seen[0] = context.reads[0].data;
    seen[1] = context.reads[1].data;
    seen[2] = context.writes[0].data;
    auto* const to = static_cast<float*>(context.writes[0].data);
    (void)fake.work(context.stream, cudaGraphNodeTypeKernel, 1, [to] { *to = 1.0F; });
    return {};
  };
  Program program;
  REQUIRE(program.add(std::move(step)).ok());
  FakeBackend backend([](const GemmPlan&) { return std::vector<Task>{}; });
  {
    Result<Executable> executable = capture_fake(fake, backend, program);
    REQUIRE(executable.ok());
    CHECK(executable->operands()[1].item == "step 'set'");
    CHECK(executable->operands()[1].name == "reads[1]");
    REQUIRE(executable->rebind({{memory + 8, other + 8}, {nullptr, other + 4}}).ok());
    CHECK(seen[0] == memory);
    CHECK(seen[1] == other + 4);
    CHECK(seen[2] == other + 8);
    CHECK(launched(fake, *executable, other + 8) == 1.0F);
    REQUIRE(executable->rebind({{other + 8, other + 12}}).ok());
    REQUIRE(executable->enqueue(fake.make_stream()).ok());
    CHECK(other[12] == 1.0F);
    CHECK(executable->rebind({{memory, reinterpret_cast<char*>(memory) + 2}}).code() ==
          StatusCode::Invalid);
  }
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
