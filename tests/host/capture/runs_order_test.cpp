#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "ai/program.hpp"
#include "capture/runs.hpp"

namespace ai::detail {
namespace {

using Value = std::uint64_t;
using Values = std::vector<Value>;

Value mix(Value seed, Value value) noexcept {
  Value x = seed * 0x9E3779B97F4A7C15ULL + value;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 32);
}

std::vector<std::uintptr_t> cells_of(const Tensor& tensor) {
  const MemoryRange range = range_of(tensor);
  std::vector<std::uintptr_t> cells;
  for (std::int64_t row = 0; row < range.rows; ++row) {
    for (std::int64_t byte = 0; byte < range.width; byte += 4) {
      cells.push_back(range.begin + static_cast<std::uintptr_t>(row * range.pitch + byte));
    }
  }
  return cells;
}

/// What lies in each float of memory, told apart by all that it was made of: two orders of a
/// program give the same values only where each item reads the same in both.
class Memory {
 public:
  Value operator[](std::uintptr_t cell) const {
    const auto found = cells_.find(cell);
    return found == cells_.end() ? mix(1, cell) : found->second;
  }
  void set(std::uintptr_t cell, Value value) { cells_[cell] = value; }
  [[nodiscard]] Values read(const Tensor& tensor) const {
    Values values;
    for (const std::uintptr_t cell : cells_of(tensor)) values.push_back((*this)[cell]);
    return values;
  }
  /// Without temporaries, which nobody sees.
  [[nodiscard]] std::map<std::uintptr_t, Value> seen() const {
    std::map<std::uintptr_t, Value> all;
    for (const auto& [cell, value] : cells_) {
      if (!symbolic::is_symbolic(reinterpret_cast<const void*>(cell))) all[cell] = value;
    }
    return all;
  }

 private:
  std::map<std::uintptr_t, Value> cells_;
};

void add(Value& sum, const Values& values) noexcept {
  for (const Value value : values) sum = mix(sum, value);
}

using Writes = std::vector<std::pair<std::uintptr_t, Value>>;

/// What plan `number` writes to each of its outputs, in their order. `link` stands for A.
std::vector<Writes> outcome(std::size_t number, const GemmPlan& plan, const Memory& memory,
                            const std::optional<Values>& link) {
  Value sum = number;
  for (const Operand& operand : ai::operands_of(plan)) {
    if (!operand.is_read) continue;
    add(sum, link && operand.name == "A" ? *link : memory.read(*operand.tensor));
  }
  std::vector<Writes> all;
  for (const Tensor& output : outputs_of(plan)) {
    Writes& writes = all.emplace_back();
    for (const std::uintptr_t cell : cells_of(output)) {
      writes.push_back({cell, mix(sum, all.size() * 1000 + writes.size())});
    }
  }
  return all;
}

void put(Memory& memory, const Writes& writes) {
  for (const auto& [cell, value] : writes) memory.set(cell, value);
}

void carry_out(std::size_t number, const Program::Item& item, Memory& memory) {
  if (const auto* plan = std::get_if<GemmPlan>(&item)) {
    for (const Writes& writes : outcome(number, *plan, memory, {})) put(memory, writes);
  } else if (const auto* copy = std::get_if<CopyStep>(&item)) {
    const Values values = memory.read(copy->from);
    const std::vector<std::uintptr_t> cells = cells_of(copy->to);
    for (std::size_t i = 0; i < cells.size(); ++i) memory.set(cells[i], values[i]);
  } else {
    const auto& step = std::get<UserStep>(item);
    Value sum = number;
    for (const Tensor& tensor : step.reads) add(sum, memory.read(tensor));
    for (const Tensor& tensor : step.writes) {
      // It may leave something as it was, and does so with every other float.
      for (const std::uintptr_t cell : cells_of(tensor)) {
        if (cell / 4 % 2 == 0) memory.set(cell, mix(sum, cell));
      }
    }
  }
}

/// As the blocks of one kernel may do it at worst, who hand on A alone: all that they read they
/// read before anything is written, or (`late`) after all the others have written; outputs are
/// written from the last to the first, and one that need not be kept is spoilt.
void carry_out(const Run& run, const Program& program, Memory& memory, bool late) {
  const auto plan_of = [&](std::size_t i) -> const GemmPlan& {
    return std::get<GemmPlan>(program.items()[run.items[i]]);
  };
  Memory source = memory;
  for (int pass = 0; pass < (late ? 2 : 1); ++pass) {
    std::optional<Values> link;
    std::vector<Writes> all;
    for (std::size_t i = 0; i < run.items.size(); ++i) {
      Memory sight = source;
      if (late && pass == 1) {
        // C may be its own Y: what a plan writes itself it has read before.
        for (const Tensor& own : outputs_of(plan_of(i))) {
          for (const std::uintptr_t cell : cells_of(own)) sight.set(cell, memory[cell]);
        }
      }
      const std::vector<Writes> outputs = outcome(run.items[i], plan_of(i), sight, link);
      link.emplace();
      for (const auto& [cell, value] : outputs.front()) link->push_back(value);
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        if (o > 0 || run.keeps_y[i]) all.push_back(outputs[o]);
        // What stays on chip leaves nothing good in memory.
        else
          for (const auto& [cell, value] : outputs[o]) all.push_back({{cell, mix(cell, 12345)}});
      }
    }
    if (pass == (late ? 1 : 0)) {
      for (std::size_t w = all.size(); w-- > 0;) put(memory, all[w]);
    } else {
      for (const Writes& writes : all) put(source, writes);
    }
  }
}

/// A random program of small items over few floats, in which many plans read what one wrote.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      TensorDesc desc;
      desc.shape = {pick(1, 3), pick(1, 3)};
      temporaries_.push_back(*program.temporary(desc, Device::CPU));
    }
    const std::int64_t count = pick(2, 12);
    for (int tries = 0; tries < 400; ++tries) {
      if (static_cast<std::int64_t>(program.items().size()) >= count) break;
      const std::int64_t kind = pick(0, 9);
      if (kind == 0) {
        add_step();
      } else if (kind == 1) {
        add_copy();
      } else {
        add_plan();
      }
    }
  }

  Program program;

 private:
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  Tensor view(std::int64_t rows, std::int64_t cols) {
    for (const Tensor& t : temporaries_) {
      const bool fits = t.desc.shape[0] == rows && t.desc.shape[1] == cols;
      if (fits && pick(0, 1) == 0) return t;
    }
    const std::int64_t ld = cols + pick(0, 1) * pick(0, 2);
    return make_tensor_2d(pool_.data() + pick(0, 60), {rows, cols}, DType::F32, Device::CPU, 0, ld);
  }
  void add_step() {
    UserStep step;
    step.name = "step";
    step.reads = {view(pick(1, 3), pick(1, 3))};
    if (pick(0, 2) > 0) step.writes = {view(pick(1, 3), pick(1, 3))};
    step.host = [](const StepContext&) { return Status(); };
    (void)program.add(std::move(step));
  }
  void add_copy() {
    const std::int64_t rows = pick(1, 3);
    const std::int64_t cols = pick(1, 3);
    const Tensor from = view(rows, cols);
    const Tensor to = view(rows, cols);
    (void)(pick(0, 1) == 0 ? program.copy_in(from, to) : program.copy_out(from, to));
  }
  void add_plan() {
    GemmForward call;
    call.A = view(pick(1, 3), pick(1, 3));
    if (!ys_.empty() && pick(0, 3) > 0) {
      call.A = ys_[ys_.size() - 1 -
                   static_cast<std::size_t>(pick(
                       0, std::min<std::int64_t>(2, static_cast<std::int64_t>(ys_.size()) - 1)))];
    }
    const std::int64_t m = call.A.desc.shape[0];
    const std::int64_t n = pick(1, 3);
    call.B = view(call.A.desc.shape[1], n);
    call.Y = view(m, n);
    if (pick(0, 4) == 0) call.Z = view(m, n);
    if (pick(0, 4) == 0) call.bias = view(1, n);
    if (pick(0, 5) == 0) {
      call.C = pick(0, 1) == 0 ? call.Y : view(m, n);
      call.attrs.beta = 1;
    }
    if (pick(0, 9) == 0) {
      GemmBackward back;
      back.A = call.A;
      back.B = call.B;
      back.gY = call.Y;
      back.gB = Gradient(view(call.B.desc.shape[0], n),
                         pick(0, 1) == 0 ? GradMode::Accumulate : GradMode::Overwrite);
      if (const Result<GemmPlan> plan = plan_backward(back)) (void)program.add(*plan);
      return;
    }
    const Result<GemmPlan> plan = plan_forward(call);
    if (plan && program.add(*plan).ok()) ys_.push_back(call.Y);
  }

  std::mt19937 random_;
  std::vector<float> pool_ = std::vector<float>(96);
  std::vector<Tensor> temporaries_;
  std::vector<Tensor> ys_;
};

TEST_CASE("random programs mean the same with each run at the place of its first plan") {
  std::size_t runs_seen = 0;
  std::size_t moved = 0;
  std::size_t unwritten = 0;
  for (unsigned seed = 0; seed < 20000; ++seed) {
    CAPTURE(seed);
    const RandomProgram made(seed);
    const Program& program = made.program;
    const bool has_lone = seed % 2 == 1;
    const auto alone = [&](const GemmPlan&) { return has_lone; };
    const std::vector<Run> runs =
        find_runs(program.items(), {}, std::numeric_limits<std::size_t>::max(), alone);
    std::map<std::size_t, const Run*> begins;
    std::set<std::size_t> in_runs;
    for (const Run& run : runs) {
      ++runs_seen;
      REQUIRE(run.items.size() >= (has_lone ? 1 : 2));
      REQUIRE(run.keeps_y.size() == run.items.size());
      begins[run.items.front()] = &run;
      moved += run.items.back() - run.items.front() + 1 > run.items.size() ? 1 : 0;
      for (std::size_t i = 0; i < run.items.size(); ++i) {
        REQUIRE((i == 0 || run.items[i - 1] < run.items[i]));
        REQUIRE(in_runs.insert(run.items[i]).second);
        unwritten += run.keeps_y[i] ? 0 : 1;
      }
    }
    Memory plain;
    for (std::size_t i = 0; i < program.items().size(); ++i) {
      carry_out(i, program.items()[i], plain);
    }
    for (const bool late : {false, true}) {
      Memory memory;
      for (std::size_t i = 0; i < program.items().size(); ++i) {
        const auto begin = begins.find(i);
        if (begin != begins.end()) carry_out(*begin->second, program, memory, late);
        if (in_runs.count(i) == 0) carry_out(i, program.items()[i], memory);
      }
      REQUIRE(memory.seen() == plain.seen());
    }
  }
  // The test has seen something of each kind.
  CHECK(runs_seen > 10000);
  CHECK(moved > 500);
  CHECK(unwritten > 500);
}

}  // namespace
}  // namespace ai::detail
