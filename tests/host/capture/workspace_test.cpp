#include "capture/workspace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

namespace ai::detail {
namespace {

class NoStep final : public Step {
 public:
  using Step::Step;
  Status enqueue(const AddressMap&, Stream) override { return {}; }
};

struct Buffer {
  MemoryRange range;
  std::vector<int> users;
};

struct Case {
  std::vector<std::unique_ptr<NoStep>> steps;
  std::vector<const Step*> pointers;
  std::vector<std::vector<int>> dependencies;
  std::vector<Buffer> buffers;
};

MemoryRange symbolic_range(std::size_t bytes) {
  return range_of(symbolic::allocate(bytes), bytes);
}

/// Steps over `buffers`, each of which is used by a random few of them; the order among steps comes
/// from hazards alone, as in a real program.
Case random_case(std::mt19937& random) {
  Case made;
  const int step_count = std::uniform_int_distribution<int>(1, 12)(random);
  const int buffer_count = std::uniform_int_distribution<int>(1, 10)(random);
  std::uniform_int_distribution<std::size_t> size(1, 3000);
  for (int b = 0; b < buffer_count; ++b) made.buffers.push_back({symbolic_range(size(random)), {}});
  std::bernoulli_distribution uses(0.25);
  std::bernoulli_distribution writes(0.5);
  for (int s = 0; s < step_count; ++s) {
    std::vector<MemoryRange> read;
    std::vector<MemoryRange> written;
    for (Buffer& buffer : made.buffers) {
      if (!uses(random)) continue;
      (writes(random) ? written : read).push_back(buffer.range);
      buffer.users.push_back(s);
    }
    made.steps.push_back(std::make_unique<NoStep>("s" + std::to_string(s), read, written));
    made.pointers.push_back(made.steps.back().get());
  }
  made.dependencies = dependencies(made.pointers);
  return made;
}

/// Whether `later` waits for `earlier`, straight or through others: by walking, unlike the planner.
bool ordered(const std::vector<std::vector<int>>& dependencies, int earlier, int later) {
  for (const int before : dependencies[static_cast<std::size_t>(later)]) {
    if (before == earlier || ordered(dependencies, earlier, before)) return true;
  }
  return false;
}

bool all_before(const Case& c, const Buffer& first, const Buffer& second) {
  for (const int a : first.users) {
    for (const int b : second.users) {
      if (!ordered(c.dependencies, a, b)) return false;
    }
  }
  return true;
}

const Placement* placement_of(const WorkspacePlan& plan, const Buffer& buffer) {
  for (const Placement& p : plan.placements) {
    if (p.address == buffer.range.begin) return &p;
  }
  return nullptr;
}

TEST_CASE("buffers share bytes only where all users of one come before all users of the other") {
  std::mt19937 random(7);
  int shared = 0;
  for (int round = 0; round < 2000; ++round) {
    const Case c = random_case(random);
    const WorkspacePlan plan = plan_workspace(c.pointers, c.dependencies, {});
    for (std::size_t i = 0; i < c.buffers.size(); ++i) {
      const Placement* const a = placement_of(plan, c.buffers[i]);
      REQUIRE((a != nullptr) == !c.buffers[i].users.empty());
      if (a == nullptr) continue;
      REQUIRE(a->offset % 256 == 0);
      REQUIRE(a->bytes == c.buffers[i].range.end() - c.buffers[i].range.begin);
      REQUIRE(a->offset + a->bytes <= plan.bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const Placement* const b = placement_of(plan, c.buffers[j]);
        if (b == nullptr) continue;
        const bool together = a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
        if (!together) continue;
        ++shared;
        REQUIRE((all_before(c, c.buffers[i], c.buffers[j]) ||
                 all_before(c, c.buffers[j], c.buffers[i])));
      }
    }
  }
  CHECK(shared > 500);  // sharing does happen, so the check above has seen something
}

struct Chain {
  explicit Chain(std::vector<std::size_t> sizes) {
    for (const std::size_t bytes : sizes) ranges.push_back(symbolic_range(bytes));
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      std::vector<MemoryRange> reads;
      if (i > 0) reads.push_back(ranges[i - 1]);
      steps.push_back(std::make_unique<NoStep>("s", reads, std::vector{ranges[i]}));
      pointers.push_back(steps.back().get());
    }
  }
  [[nodiscard]] WorkspacePlan plan() const {
    return plan_workspace(pointers, dependencies(pointers), {});
  }
  std::vector<MemoryRange> ranges;
  std::vector<std::unique_ptr<NoStep>> steps;
  std::vector<const Step*> pointers;
};

TEST_CASE("a chain of layers needs room for two neighbours, whatever its length") {
  const Chain chain({1024, 1024, 1024, 1024, 1024, 1024});
  CHECK(chain.plan().bytes == 2048);
}

TEST_CASE("parallel branches do not share memory") {
  const MemoryRange a = symbolic_range(512);
  const MemoryRange b = symbolic_range(512);
  const NoStep first("a", {}, {a});
  const NoStep second("b", {}, {b});
  const std::vector<const Step*> steps{&first, &second};
  CHECK(plan_workspace(steps, dependencies(steps), {}).bytes == 1024);
}

TEST_CASE("a view of a temporary keeps its distance from the temporary's begin") {
  const MemoryRange whole = symbolic_range(1000);
  const MemoryRange part{whole.begin + 500, 1, 100, 100};
  const NoStep step("s", {}, {part});
  const std::vector<const Step*> steps{&step};
  const std::vector<MemoryRange> temporaries{whole};
  const WorkspacePlan plan = plan_workspace(steps, dependencies(steps), temporaries);
  REQUIRE(plan.placements.size() == 1);
  CHECK(plan.placements[0].address == whole.begin);
  CHECK(plan.bytes == 1024);
  alignas(256) std::byte memory[1024];
  const AddressMap map = plan.over(memory);
  CHECK(map(reinterpret_cast<const void*>(part.begin)) == memory + 500);
}

TEST_CASE("buffers that nobody uses and empty ones take no room") {
  const MemoryRange unused = symbolic_range(4096);
  const MemoryRange empty = symbolic_range(0);
  const NoStep step("s", {empty}, {});
  const std::vector<const Step*> steps{&step};
  const std::vector<MemoryRange> temporaries{unused, empty};
  const WorkspacePlan plan = plan_workspace(steps, dependencies(steps), temporaries);
  CHECK(plan.bytes == 0);
  CHECK(plan.placements.empty());
}

TEST_CASE("state shares with nobody, whenever it is used, and is named") {
  for (const bool is_state : {true, false}) {
    CAPTURE(is_state);
    const MemoryRange kept = symbolic_range(500);
    const MemoryRange between = symbolic_range(4);
    const MemoryRange late = symbolic_range(512);
    const NoStep a("a", {}, {kept, between},
                   is_state ? std::vector{kept} : std::vector<MemoryRange>());
    const NoStep b("b", {between}, {late});
    const std::vector<const Step*> steps{&a, &b};
    const WorkspacePlan plan = plan_workspace(steps, dependencies(steps), {});
    CHECK(plan.bytes == 512 + 256 + (is_state ? 512 : 0));
    REQUIRE(plan.state.size() == (is_state ? 1 : 0));
    if (!is_state) continue;
    CHECK(plan.state[0].address == kept.begin);
    CHECK(plan.state[0].bytes == 500);
    CHECK(plan.state[0].offset == placement_of(plan, Buffer{kept, {}})->offset);
  }
}

TEST_CASE("user memory is no part of the workspace") {
  float user[64] = {};
  const NoStep step("s", {range_of(user, sizeof user)}, {});
  const std::vector<const Step*> steps{&step};
  CHECK(plan_workspace(steps, dependencies(steps), {}).bytes == 0);
}

TEST_CASE("a buffer goes where the gap is tightest") {
  const MemoryRange wide = symbolic_range(2048);
  const MemoryRange keep = symbolic_range(1536);
  const MemoryRange tight = symbolic_range(1024);
  const MemoryRange keep_too = symbolic_range(768);
  const MemoryRange late = symbolic_range(512);
  const NoStep first("first", {}, {wide, keep, tight, keep_too});
  const NoStep second("second", {wide, keep, tight, keep_too}, {});
  const NoStep third("third", {}, {late, keep, keep_too});
  const std::vector<const Step*> steps{&first, &second, &third};
  const WorkspacePlan plan = plan_workspace(steps, dependencies(steps), {});
  CHECK(plan.bytes == 2048 + 1536 + 1024 + 768);
  const auto at = [&](const MemoryRange& range) {
    return placement_of(plan, Buffer{range, {}})->offset;
  };
  CHECK(at(late) == at(tight));
}

}  // namespace
}  // namespace ai::detail
