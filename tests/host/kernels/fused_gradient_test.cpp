#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "backward_support.hpp"
#include "forward_support.hpp"
#include "support/oracle.hpp"

using namespace forward_test;
using ai::Candidate;
using ai::GemmBackward;
using ai::GradMode;
using ai::RecalledCandidate;
using Names = std::vector<std::string>;

namespace {

bool is_fused(const Candidate& candidate) {
  return candidate.applicable() && candidate.name.starts_with("fused/");
}

struct Gradients {
  Gradients(std::int64_t m, std::int64_t n, std::int64_t k)
      : a(m, k), b(k, n), gy(m, n), ga(m, k), gb(k, n) {}
  [[nodiscard]] GemmBackward call(GradMode mode = GradMode::Overwrite) const {
    return {.A = a.tensor(),
            .B = b.tensor(),
            .gY = gy.tensor(),
            .gA = ai::Gradient(ga.tensor(), mode),
            .gB = ai::Gradient(gb.tensor(), mode)};
  }
  Matrix a, b, gy, ga, gb;
};

}  // namespace

TEST_CASE("gradients: sums of up to 8 terms are outer products, few rows or columns are fused") {
  const auto backend = fake_device::fresh_backend();
  const Names rest = {"lt_gemm/0", "lt_gemm/1", "lt_gemm/2", "lt_gemm/fallback"};
  const auto names = [&](const Gradients& g) {
    std::vector<Names> result;
    for (const Task& task : backward_test::lower(*backend, g.call())) {
      Names all = fake_device::names(task);
      REQUIRE(all.size() >= rest.size());
      CHECK(Names(all.end() - 4, all.end()) == rest);
      all.resize(all.size() - 4);
      result.push_back(all);
    }
    return result;
  };
  CHECK(names(Gradients(1, 64, 256)) ==
        std::vector<Names>{{"fused/0", "fused/1"}, {"fused/outer"}});
  CHECK(names(Gradients(3, 20, 32)) == std::vector<Names>{{"fused/0"}, {"fused/outer"}});
  CHECK(names(Gradients(1, 5, 32))[0].front() == "fused/outer");  // gA sums 5 terms
  const std::vector<Names> wide = names(Gradients(64, 48, 32));
  CHECK(wide == std::vector<Names>{{"fused"}, {"fused"}});
  const std::vector<Task> tasks = backward_test::lower(*backend, Gradients(64, 48, 32).call());
  CHECK(reason_of(tasks[0], "fused") == "M is 64 and N 32, it serves up to 8 of either");
  CHECK(reason_of(tasks[1], "fused") == "M is 32 and N 48, it serves up to 8 of either");
}

TEST_CASE("every fused gradient is exact in both modes, with and without vectors") {
  for (const auto& [m, n, k] :
       {std::array{1, 64, 32}, {1, 5, 32}, {2, 31, 9}, {8, 12, 20}, {5, 1, 300}, {64, 3, 16}}) {
    for (unsigned bits = 0; bits < 16; ++bits) {
      const bool trans_a = (bits & 1U) != 0, trans_b = (bits & 2U) != 0;
      const GradMode mode = (bits & 4U) != 0 ? GradMode::Accumulate : GradMode::Overwrite;
      const std::int64_t pad = (bits & 8U) != 0 ? 3 : 4;
      const auto shaped = [pad](bool trans, std::int64_t r, std::int64_t c, std::uint32_t seed) {
        return trans ? Matrix(c, r, pad, 0, seed) : Matrix(r, c, pad, 0, seed);
      };
      const Matrix a = shaped(trans_a, m, k, 1), b = shaped(trans_b, k, n, 2), gy(m, n, pad, 0, 3);
      Matrix ga = shaped(trans_a, m, k, 4), gb = shaped(trans_b, k, n, 5);
      GemmBackward call = {.A = a.tensor(),
                           .B = b.tensor(),
                           .gY = gy.tensor(),
                           .gA = ai::Gradient(ga.tensor(), mode),
                           .gB = ai::Gradient(gb.tensor(), mode)};
      call.attrs = {.trans_a = trans_a, .trans_b = trans_b};
      call.attrs.alpha = -2.0F;
      const auto backend = fake_device::fresh_backend();
      const std::vector<Task> tasks = backward_test::lower(*backend, call);
      REQUIRE(tasks.size() == 2);
      for (std::size_t i = 0; i < 2; ++i) {
        Matrix& got = i == 0 ? ga : gb;
        const ai::Tensor tensor = got.tensor();
        for (const Candidate& candidate : tasks[i].candidates) {
          if (!is_fused(candidate)) continue;
          CAPTURE(candidate.name);
          got.fill(mode == GradMode::Overwrite ? std::nanf("") : 3.0F);
          const oracle::Backward all = oracle::backward(call);
          const oracle::Table& expected = i == 0 ? all.ga : all.gb;
          REQUIRE(fake_device::Runner().run(candidate).ok());
          bool right = got.padding_is_untouched();
          for (std::size_t e = 0; e < expected.size(); ++e) {
            const auto at = static_cast<std::int64_t>(e);
            const std::int64_t cols = tensor.desc.shape[1];
            right = right && got.at(at / cols, at % cols) == static_cast<float>(expected[e].value);
          }
          CHECK(right);
        }
      }
    }
  }
}

TEST_CASE("fused gradients are recalled by their names, without cuBLASLt") {
  const Gradients g(1, 64, 256);
  for (const GradMode mode : {GradMode::Overwrite, GradMode::Accumulate}) {
    const RecalledCandidate known[] = {{"fused/1", "fused/1"}, {"fused/outer", "fused/outer"}};
    const auto backend = fake_device::fresh_backend();
    const std::vector<Task> tasks = backward_test::lower(
        *backend, g.call(mode), [&](std::size_t task) { return &known[task]; });
    REQUIRE(tasks.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(tasks[i].recalled);
      CHECK(fake_device::names(tasks[i]) == Names{known[i].name});
      CHECK(tasks[i].candidates[0].recipe == known[i].recipe);
    }
    CHECK(tasks[1].candidates[0].steps[0]->name() == "fused gB");
    CHECK(fake_lt::state().loads == 0);
  }
  const RecalledCandidate other = {"fused/outer", "fused/outer"};
  const auto backend = fake_device::fresh_backend();
  const std::vector<Task> tasks = backward_test::lower(*backend, Gradients(1, 64, 256).call(),
                                                       [&](std::size_t) { return &other; });
  CHECK_FALSE(tasks[0].recalled);  // it sums 64 terms
  CHECK(tasks[1].recalled);
}
