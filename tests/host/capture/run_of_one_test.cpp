// A plan that is carried out by a kernel for runs although no other is beside it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "fused_program.hpp"

using ai::Executable;
using ai::Tensor;
using ai::test::FusedProgram;
using ai::test::has;
using ai::test::names;
using Names = std::vector<std::string>;

TEST_CASE("a plan alone becomes another kernel where that is quicker, but not unmeasured") {
  FusedProgram lone;
  lone.add(4);
  CHECK(names(lone.capture()) == Names{"plain"});
  lone.backend.lone_too = true;
  lone.options.tuning = ai::Tuning::Off;
  CHECK(names(lone.capture()) == Names{"plain"});
  lone.options.tuning = ai::Tuning::Measure;
  Executable executable = lone.capture();
  CHECK(names(executable) == Names{"chain/1"});
  CHECK(has(executable.explain(), "chain of 1"));
  REQUIRE(executable.launch(nullptr).ok());
  CHECK(FusedProgram::values(lone.layers.back().call.Y) == FusedProgram::expected(lone.calls()));
  Executable again = lone.capture();
  CHECK(names(again) == Names{"chain/1"});
  CHECK(again.tuning().candidates_timed == 0);
  lone.backend.fused = {{"chain/0", 40}};
  lone.options.tuning = ai::Tuning::Remeasure;
  CHECK(names(lone.capture()) == Names{"plain"});
  lone.options.tuning = ai::Tuning::Measure;
  Executable slow = lone.capture();
  CHECK(names(slow) == Names{"plain"});
  CHECK(slow.tuning().candidates_timed == 0);
  CHECK_MESSAGE(has(slow.explain(), "run of 1 layer ("), slow.explain());
}

TEST_CASE(
    "a plan that was fused alone stays so where it is planned anew, or becomes one like any") {
  FusedProgram lone;
  lone.add(4);
  lone.backend.lone_too = true;
  Executable executable = lone.capture();
  REQUIRE(names(executable) == Names{"chain/1"});
  const Tensor a = lone.calls()[0].A;
  const std::vector<float> x = FusedProgram::values(a);
  auto* const memory = static_cast<float*>(lone.fake.operand(x.size() * sizeof(float) + 64));
  const auto moved = [&](std::size_t shift) {
    std::copy(x.begin(), x.end(), memory + shift);
    return memory + shift;
  };
  SUBCASE("stays") {
    REQUIRE(executable.rebind({{a.data, moved(1)}}).ok());
    CHECK(names(executable) == Names{"chain/1"});
    CHECK(lone.backend.asked.size() == 2);
  }
  SUBCASE("becomes one like any") {
    lone.backend.needs_alignment = true;
    REQUIRE(executable.rebind({{a.data, moved(2)}}).ok());
    CHECK(names(executable) == Names{"plain"});
    CHECK(lone.backend.asked.size() == 2);
    REQUIRE(executable.rebind({{memory + 2, moved(1)}}).ok());
    CHECK(names(executable) == Names{"plain"});
    CHECK(lone.backend.asked.size() == 2);
  }
  REQUIRE(executable.launch(nullptr).ok());
  CHECK(FusedProgram::values(lone.layers[0].call.Y) == FusedProgram::expected(lone.calls()));
}
