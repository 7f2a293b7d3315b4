#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ai/program.hpp"
#include "capture/runs.hpp"

namespace ai::test {

using Items = std::vector<std::size_t>;
using Keeps = std::vector<bool>;

/// A program over views of one pool; nothing of it is ever run.
struct Net {
  std::vector<float> pool = std::vector<float>(4096);
  Program program = {};
  std::size_t used = 0;

  /// 16 floats apart, so that views of different ones never meet.
  Tensor at(std::size_t offset, std::int64_t rows, std::int64_t cols, std::int64_t ld = 0) {
    REQUIRE(offset + static_cast<std::size_t>((rows + 1) * (cols + ld)) <= pool.size());
    return make_tensor_2d(pool.data() + offset, {rows, cols}, DType::F32, Device::CPU, 0, ld);
  }
  Tensor make(std::int64_t rows, std::int64_t cols, std::int64_t ld = 0) {
    const Tensor made = at(used, rows, cols, ld);
    used += static_cast<std::size_t>(rows * (ld > cols ? ld : cols)) + 16;
    return made;
  }
  Tensor temporary(std::int64_t rows, std::int64_t cols) {
    TensorDesc desc;
    desc.shape = {rows, cols};
    const Result<Tensor> made = program.temporary(desc, Device::CPU);
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    return *made;
  }
  /// Y = A B with a B of its own.
  GemmForward layer(const Tensor& a, const Tensor& y) {
    GemmForward call;
    call.A = a;
    call.B = make(a.desc.shape[1], y.desc.shape[1]);
    call.Y = y;
    return call;
  }
  void add(const GemmForward& call) {
    const Result<GemmPlan> plan = plan_forward(call);
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    const Status added = program.add(*plan);
    REQUIRE_MESSAGE(added.ok(), added.to_string());
  }
  void add(const GemmBackward& call) {
    const Result<GemmPlan> plan = plan_backward(call);
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    REQUIRE(program.add(*plan).ok());
  }
  void step(std::vector<Tensor> reads, std::vector<Tensor> writes) {
    UserStep step;
    step.name = "step";
    step.reads = std::move(reads);
    step.writes = std::move(writes);
    step.host = [](const StepContext&) { return Status(); };
    REQUIRE(program.add(std::move(step)).ok());
  }
  [[nodiscard]] std::vector<Items> runs() const {
    std::vector<Items> all;
    for (const detail::Run& run : detail::find_runs(program.items())) {
      CHECK(run.keeps_y.size() == run.items.size());
      all.push_back(run.items);
    }
    return all;
  }
  [[nodiscard]] std::vector<Keeps> keeps() const {
    std::vector<Keeps> all;
    for (const detail::Run& run : detail::find_runs(program.items())) all.push_back(run.keeps_y);
    return all;
  }
};

/// x -> y[0] -> y[1] -> y[2], 2 rows and 4 columns each, of which a case spoils something.
struct Chain : Net {
  Tensor x = make(2, 4);
  std::vector<Tensor> y = {make(2, 4), make(2, 4), make(2, 4)};
  std::vector<GemmForward> layers = {layer(x, y[0]), layer(y[0], y[1]), layer(y[1], y[2])};
  Tensor other = make(4, 4);  // of no layer

  void add_all() {
    for (const GemmForward& call : layers) add(call);
  }
};

}  // namespace ai::test
