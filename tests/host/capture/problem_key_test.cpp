// The key that the best candidate for a problem is kept under.
#include "capture/problem_key.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ai/gemm.hpp"
#include "ai/program.hpp"

namespace ai::test {
namespace {

using detail::problem_key;

alignas(512) float memory[1 << 16];

/// A matrix at the `place`-th kilobyte, so many floats further.
Tensor matrix(int place, std::int64_t rows, std::int64_t cols, std::int64_t ld = 0, int shift = 0) {
  return make_tensor_2d(memory + place * 1024 + shift, {rows, cols}, DType::F32, Device::CUDA, 0,
                        ld);
}

GemmForward forward_call() {
  return {.A = matrix(0, 4, 8),
          .B = matrix(1, 8, 12),
          .C = matrix(2, 4, 12),
          .bias = make_tensor_1d(memory + 3 * 1024, 12),
          .Y = matrix(4, 4, 12),
          .Z = matrix(5, 4, 12),
          .attrs = {.act = ActKind::ReLU, .beta = 0.5F}};
}

GemmBackward backward_call() {
  return {.A = matrix(0, 4, 8),
          .B = matrix(1, 8, 12),
          .C = matrix(2, 4, 12),
          .gY = matrix(3, 4, 12),
          .Z = matrix(4, 4, 12),
          .gA = matrix(5, 4, 8),
          .gB = matrix(6, 8, 12),
          .gC = matrix(7, 4, 12),
          .gBias = make_tensor_1d(memory + 8 * 1024, 12),
          .attrs = {.act = ActKind::ReLU, .beta = 0.5F}};
}

std::string key_of(const GemmForward& call) {
  const Result<GemmPlan> plan = plan_forward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  return problem_key(*plan);
}
std::string key_of(const GemmBackward& call) {
  const Result<GemmPlan> plan = plan_backward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  return problem_key(*plan);
}

template <typename Call>
struct Change {
  const char* what;
  std::function<void(Call&)> apply;
};

/// Every change makes a key of its own.
template <typename Call>
void check_all_tell(const Call& call, const std::vector<Change<Call>>& changes) {
  std::set<std::string> seen{key_of(call)};
  for (const Change<Call>& change : changes) {
    Call changed = call;
    change.apply(changed);
    CHECK_MESSAGE(seen.insert(key_of(changed)).second, change.what, ": ", key_of(changed));
  }
}
/// No change is seen.
template <typename Call>
void check_none_tells(const Call& call, const std::vector<Change<Call>>& changes) {
  for (const Change<Call>& change : changes) {
    Call changed = call;
    change.apply(changed);
    CHECK_MESSAGE(key_of(changed) == key_of(call), change.what);
  }
}

TEST_CASE("a key reads as what the problem is") {
  CHECK(key_of(forward_call()) ==
        "forward M=4 N=12 K=8 trans=-- bias=PerN act=ReLU alpha=1 beta=0.5 F32 A[4,8]/8@256 "
        "B[8,12]/12@256 C[4,12]/12@256 bias[12]/1@256 Y[4,12]/12@256 Z[4,12]/12@256");
  CHECK(key_of(backward_call()) ==
        "backward M=4 N=12 K=8 trans=-- bias=PerN act=ReLU alpha=1 beta=0.5 F32 A[4,8]/8@256 "
        "B[8,12]/12@256 gY[4,12]/12@256 Z[4,12]/12@256 gA[4,8]/8@256 gB[8,12]/12@256 "
        "gC[4,12]/12@256 gBias[12]/1@256");
  CHECK(detail::task_key("forward", 2) == "forward #2");
}

TEST_CASE("whatever a forward call's best candidate depends on is in its key") {
  using C = GemmForward;
  check_all_tell<C>(
      forward_call(),
      {{"M",
        [](C& c) {
          c.A = matrix(0, 3, 8), c.C = matrix(2, 3, 12), c.Y = matrix(4, 3, 12),
          c.Z = matrix(5, 3, 12);
        }},
       {"K", [](C& c) { c.A = matrix(0, 4, 7), c.B = matrix(1, 7, 12); }},
       {"trans_a", [](C& c) { c.A = matrix(0, 8, 4), c.attrs.trans_a = true; }},
       {"trans_b", [](C& c) { c.B = matrix(1, 12, 8), c.attrs.trans_b = true; }},
       {"no bias", [](C& c) { c.bias.reset(); }},
       {"scalar bias", [](C& c) { c.bias = make_tensor_1d(memory + 3 * 1024, 1); }},
       {"bias per row", [](C& c) { c.bias = matrix(3, 4, 1); }},
       {"strided bias",
        [](C& c) {
          c.bias = make_tensor_1d(memory + 3 * 1024, 12, DType::F32, Device::CUDA, 0, 5);
        }},
       {"no activation", [](C& c) { c.attrs.act = ActKind::None; }},
       {"LeakyReLU", [](C& c) { c.attrs.act = ActKind::LeakyReLU; }},
       {"slope", [](C& c) { c.attrs.act = ActKind::LeakyReLU, c.attrs.leaky_slope = 0.02F; }},
       {"alpha", [](C& c) { c.attrs.alpha = 1.0000001F; }},
       {"alpha 0", [](C& c) { c.attrs.alpha = 0; }},
       {"beta", [](C& c) { c.attrs.beta = 0.25F; }},
       {"beta 0", [](C& c) { c.attrs.beta = 0; }},
       {"no Z", [](C& c) { c.Z.reset(); }},
       {"ld of A", [](C& c) { c.A = matrix(0, 4, 8, 9); }},
       {"ld of Y", [](C& c) { c.Y = matrix(4, 4, 12, 16); }},
       {"A on 4 bytes", [](C& c) { c.A = matrix(0, 4, 8, 8, 1); }},
       {"A on 8 bytes", [](C& c) { c.A = matrix(0, 4, 8, 8, 2); }},
       {"A on 128 bytes", [](C& c) { c.A = matrix(0, 4, 8, 8, 32); }},
       {"bias on 16 bytes", [](C& c) { c.bias = make_tensor_1d(memory + 3 * 1024 + 4, 12); }},
       {"C in place", [](C& c) { c.C = c.Y; }}});
  GemmForward square = forward_call();
  square.A = matrix(0, 8, 8);
  square.B = matrix(1, 8, 8);
  square.C.reset();
  square.attrs.beta = 0;
  square.bias.reset();
  square.Y = matrix(4, 8, 8);
  square.Z.reset();
  check_all_tell<C>(square, {{"B is A", [](C& c) { c.B = c.A; }}});
}

TEST_CASE("whatever a backward call's best candidates depend on is in its key") {
  using C = GemmBackward;
  check_all_tell<C>(backward_call(),
                    {{"no gA", [](C& c) { c.gA.reset(); }},
                     {"no gB", [](C& c) { c.gB.reset(); }},
                     {"no gC", [](C& c) { c.gC.reset(); }},
                     {"no gBias", [](C& c) { c.gBias.reset(); }},
                     {"adds to gA", [](C& c) { c.gA->mode = GradMode::Accumulate; }},
                     {"adds to gB", [](C& c) { c.gB->mode = GradMode::Accumulate; }},
                     {"adds to gC", [](C& c) { c.gC->mode = GradMode::Accumulate; }},
                     {"adds to gBias", [](C& c) { c.gBias->mode = GradMode::Accumulate; }},
                     {"act", [](C& c) { c.attrs.act = ActKind::Tanh; }},
                     {"ld of gB", [](C& c) { c.gB = matrix(6, 8, 12, 20); }},
                     {"gY on 4 bytes", [](C& c) { c.gY = matrix(3, 4, 12, 12, 1); }}});
}

TEST_CASE("what no candidate depends on is not in the key") {
  using C = GemmForward;
  check_none_tells<C>(forward_call(),
                      {{"other memory", [](C& c) { c.A = matrix(9, 4, 8); }},
                       {"256 and 512 bytes are alike", [](C& c) { c.A = matrix(0, 4, 8, 8, 64); }},
                       {"save_z, as Z is given", [](C& c) { c.attrs.save_z = true; }},
                       {"with_bias, as it is given", [](C& c) { c.attrs.with_bias = true; }},
                       {"the slope of another activation", [](C& c) { c.attrs.leaky_slope = 3; }}});
  GemmForward row = forward_call();
  row.A = matrix(0, 1, 8);
  row.C = matrix(2, 1, 12);
  row.Y = matrix(4, 1, 12);
  row.Z = matrix(5, 1, 12);
  check_none_tells<C>(row, {{"the ld of one row", [](C& c) { c.A = matrix(0, 1, 8, 100); }}});
  GemmForward unread = forward_call();
  unread.attrs.beta = 0;
  check_none_tells<C>(unread, {{"C that is not read", [](C& c) { c.C.reset(); }},
                               {"minus zero", [](C& c) { c.attrs.beta = -0.0F; }}});
  GemmForward empty = forward_call();
  empty.A = matrix(0, 4, 0);
  empty.B = matrix(1, 0, 12);
  check_none_tells<C>(empty, {{"where nothing lies", [](C& c) { c.A = matrix(0, 4, 0, 0, 1); }},
                              {"that it lies there twice", [](C& c) { c.A.data = c.B.data; }}});
}

TEST_CASE("the context of a program is its problems and the caller's steps, in order") {
  const auto context = [](std::vector<std::string> items, int shift = 0) {
    Program program;
    for (const std::string& item : items) {
      if (item == "forward" || item == "wide") {
        GemmForward call = forward_call();
        if (item == "wide") call.B = matrix(1, 8, 12, 16);
        call.A = matrix(9 + shift, 4, 8);
        REQUIRE(program.add(*plan_forward(call)).ok());
        continue;
      }
      UserStep step;
      step.name = item;
      step.writes = {matrix(10, 4, 4)};
      step.cuda = [](const StepContext&) { return Status(); };
      REQUIRE(program.add(step).ok());
    }
    return detail::context_of(program);
  };
  const std::string one = context({"forward", "loss", "wide"});
  CHECK(one.size() == 16);
  CHECK(context({"forward", "loss", "wide"}, 4) == one);  // elsewhere
  const std::set<std::string> all = {one,
                                     context({"forward", "wide", "loss"}),
                                     context({"forward", "loss", "forward"}),
                                     context({"forward", "loss"}),
                                     context({"forward", "other", "wide"}),
                                     context({"forward", "loss", "wide", "wide"})};
  CHECK(all.size() == 6);
  CHECK(detail::key_in("forward M=1 #0", "0123") == "forward M=1 #0 in 0123");
}

}  // namespace
}  // namespace ai::test
