#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "forward_support.hpp"
#include "support/oracle.hpp"

using namespace forward_test;
using ai::Candidate;
using ai::RecalledCandidate;
using Names = std::vector<std::string>;

namespace {

bool is_fused(const Candidate& candidate) {
  return candidate.applicable() && candidate.name.starts_with("fused/");
}

/// A plain layer of those sizes, packed.
struct Layer {
  Layer(std::int64_t m, std::int64_t n, std::int64_t k) : a(m, k), b(k, n, 0, 0, 2), y(m, n) {}
  [[nodiscard]] GemmForward call() const {
    return {.A = a.tensor(), .B = b.tensor(), .Y = y.tensor()};
  }
  Matrix a, b, y;
};

/// "" where the family applies.
std::string verdict(std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto backend = fake_device::fresh_backend();
  const Layer layer(m, n, k);
  const Task task = lower(*backend, layer.call());
  const Candidate* const refused = fake_device::find(task, "fused");
  CHECK((refused == nullptr) == (fake_device::find(task, "fused/0") != nullptr));
  return refused == nullptr ? std::string() : refused->reason;
}

}  // namespace

TEST_CASE("few rows: fused candidates are trusted, of one step, and stand before cuBLASLt's") {
  const auto backend = fake_device::fresh_backend();
  const Layer layer(1, 64, 256);
  const Matrix z(1, 64);
  GemmForward call = layer.call();
  call.attrs.act = ActKind::Tanh;
  call.Z = z.tensor();
  const Task task = lower(*backend, call);
  CHECK(fake_device::names(task) == Names{"lt_fused", "lt_bias", "epilogue", "fused/0", "fused/1",
                                          "fused/2", "lt_epilogue/0", "lt_epilogue/1",
                                          "lt_epilogue/2", "lt_epilogue/fallback"});
  for (const Candidate& candidate : task.candidates) {
    if (!is_fused(candidate)) continue;
    CHECK(candidate.trusted);
    CHECK(candidate.recipe == candidate.name);
    REQUIRE(candidate.steps.size() == 1);
    CHECK(candidate.steps[0]->name() == "fused Y");
  }
}

TEST_CASE("it serves up to 8 rows or columns, and says why no more") {
  for (const std::int64_t m : {1, 2, 3, 5, 8}) CHECK(verdict(m, 48, 32) == "");
  for (const std::int64_t n : {1, 5, 8}) CHECK(verdict(64, n, 32) == "");
  CHECK(verdict(64, 48, 32) == "M is 64 and N 48, it serves up to 8 of either");
  CHECK(contains(verdict(9, 9, 32), "M is 9 and N 9"));
  CHECK(contains(verdict(1, 8, 65536), "K = 65536 would keep 1 busy"));
  CHECK(verdict(1, 8, 4096) == "");
}

TEST_CASE("an operand that spans 2^31 elements is left to others") {
  const auto backend = fake_device::fresh_backend();
  fake_lt::state().computes = false;
  const Layer layer(2, 16, 32);
  GemmForward call = layer.call();
  const std::int64_t far = std::int64_t{1} << 31;
  const auto apart = [&](std::int64_t rows, std::int64_t cols) {
    auto* const nowhere = reinterpret_cast<float*>(std::uintptr_t{1} << 40);
    return ai::make_tensor_2d(nowhere, {rows, cols}, ai::DType::F32, ai::Device::CUDA, 0, far);
  };
  SUBCASE("A") {
    call.A = apart(2, 32);
  }
  SUBCASE("Z") {
    call.Z = apart(2, 16);
    call.attrs.act = ActKind::ReLU;
  }
  SUBCASE("the bias") {
    call.bias = apart(2, 1);
  }
  CHECK(contains(reason_of(lower(*backend, call), "fused"), "2^31"));
}

TEST_CASE("every activation, bias, addend, transpose and result is exact for few rows or columns") {
  const auto check = [](std::int64_t m, std::int64_t n, std::int64_t k, unsigned bits, int bias,
                        ActKind act) {
    const bool trans_a = (bits & 1U) != 0, trans_b = (bits & 2U) != 0, with_z = (bits & 4U) != 0;
    const std::int64_t pad = (bits & 8U) != 0 ? 3 : 4;
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    CAPTURE(bits);
    CAPTURE(bias);
    CAPTURE(act);
    const auto backend = fake_device::fresh_backend();
    const Matrix a = trans_a ? Matrix(k, m, pad) : Matrix(m, k, pad);
    const Matrix b = trans_b ? Matrix(n, k, pad, 0, 2) : Matrix(k, n, pad, 0, 2);
    const Matrix c(m, n, 2, 0, 3);
    const Matrix biases[] = {Matrix(0, 0), Matrix(1, 1, 0, 0, 4), Matrix(1, n, 0, 0, 4),
                             Matrix(m, 1, 2, 0, 4)};
    Matrix y(m, n, pad), z(m, n, 8);
    GemmForward call = {.A = a.tensor(), .B = b.tensor(), .Y = y.tensor()};
    if ((bits & 16U) != 0) call.C = (bits & 32U) != 0 ? y.tensor() : c.tensor();
    if (bias > 0) call.bias = biases[bias].tensor();
    if (with_z) call.Z = z.tensor();
    call.attrs = {.trans_a = trans_a, .trans_b = trans_b, .act = act, .leaky_slope = 0.5F};
    call.attrs.alpha = -2.0F;
    call.attrs.beta = call.C ? 3.0F : 0.0F;

    const Task task = lower(*backend, call);
    int found = 0;
    for (const Candidate& candidate : task.candidates) {
      if (!is_fused(candidate)) continue;
      ++found;
      y.fill((bits & 48U) == 48U ? 2.0F : std::nanf(""));
      z.fill(std::nanf(""));
      const oracle::Forward expected = oracle::forward(call);
      REQUIRE(fake_device::Runner().run(candidate).ok());
      bool right = y.padding_is_untouched() && z.padding_is_untouched();
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const auto at = static_cast<std::size_t>(i * n + j);
          right = right && (!with_z || z.at(i, j) == static_cast<float>(expected.z[at].value));
          right = right && std::abs(static_cast<double>(y.at(i, j)) - expected.y[at].value) <=
                               expected.y[at].tolerance();
        }
      }
      CHECK(right);
    }
    CHECK(found > 0);
    CHECK(fake_lt::state().calls.empty());
  };
  unsigned turn = 0;
  for (const auto& [m, n, k] : {std::array{1, 12, 8},
                                {1, 5, 7},
                                {1, 1, 20},
                                {2, 16, 12},
                                {3, 7, 1},
                                {8, 33, 6},
                                {13, 8, 20},
                                {20, 3, 5},
                                {33, 1, 9},
                                {1, 4100, 3}}) {
    for (unsigned bits = 0; bits<64; bits += n> 4000 ? 7 : 1) {
      const auto act = static_cast<ActKind>(turn % 9);
      check(m, n, k, bits, static_cast<int>(turn / 9 % 4), act);
      ++turn;
    }
  }
}

TEST_CASE("operands that are bound elsewhere are loaded as they lie there") {
  const auto backend = fake_device::fresh_backend();
  const Layer layer(1, 64, 64);
  const Matrix shifted(64, 64, 0, 1, 2);
  Matrix there(1, 64, 0, 1);
  const Task task = lower(*backend, layer.call());
  const Candidate& candidate = *fake_device::find(task, "fused/0");
  fake_device::Runner at_home;
  REQUIRE(at_home.run(candidate).ok());
  fake_device::Runner elsewhere;
  const auto from = [](const Matrix& matrix) {
    return reinterpret_cast<std::uintptr_t>(matrix.data());
  };
  elsewhere.addresses().add(from(layer.b), 64 * 64 * sizeof(float), shifted.data());
  elsewhere.addresses().add(from(layer.y), 64 * sizeof(float), there.data());
  REQUIRE(elsewhere.run(candidate).ok());
  const auto& launches = fake_device::state().launches;
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].kernel != launches[1].kernel);
  CHECK(launches[0].blocks == launches[1].blocks);  // the sums stay the same
  CHECK(launches[0].threads == launches[1].threads);
  Matrix y = Matrix(1, 64);
  for (std::int64_t n = 0; n < 64; ++n) CHECK(there.at(0, n) == layer.y.data()[n]);
}

TEST_CASE("all kernels that a step may take are loaded before") {
  const auto backend = fake_device::fresh_backend();
  const Layer layer(1, 64, 64);
  const Task task = lower(*backend, layer.call());
  fake_device::state().calls.clear();
  REQUIRE(fake_device::find(task, "fused/0")->steps[0]->prepare().ok());
  CHECK(fake_device::state().calls == Names{"load", "load"});
}

TEST_CASE("a fused step books what it reads and writes") {
  const auto backend = fake_device::fresh_backend();
  const Layer layer(2, 64, 64);
  const Matrix c(2, 64), z(2, 64), bias(1, 64);
  GemmForward call = layer.call();
  call.C = c.tensor();
  call.Z = z.tensor();
  call.bias = bias.tensor();
  call.attrs.act = ActKind::ReLU;
  for (const float beta : {0.0F, 1.0F}) {
    call.attrs.beta = beta;
    const Task task = lower(*backend, call);
    const ai::Step& step = *fake_device::find(task, "fused/0")->steps.at(0);
    Names seen;
    const std::pair<const char*, ai::MemoryRange> all[] = {
        {"A", ai::range_of(call.A)},     {"B", ai::range_of(call.B)}, {"C", ai::range_of(*call.C)},
        {"b", ai::range_of(*call.bias)}, {"Y", ai::range_of(call.Y)}, {"Z", ai::range_of(*call.Z)}};
    for (const auto& [name, wanted] : all) {
      for (const auto& range : step.reads()) {
        if (range.begin == wanted.begin && range.end() == wanted.end()) {
          seen.push_back(std::string("reads ") + name);
        }
      }
      for (const auto& range : step.writes()) {
        if (range.begin == wanted.begin && range.end() == wanted.end()) {
          seen.push_back(std::string("writes ") + name);
        }
      }
    }
    Names expected = {"reads A", "reads B", "reads b", "writes Y", "writes Z"};
    if (beta != 0.0F) expected.insert(expected.begin() + 2, "reads C");
    CHECK(seen == expected);
    CHECK(step.reads().size() + step.writes().size() == expected.size());
  }
}

TEST_CASE("a fused candidate is recalled by its name, and no cuBLASLt is loaded") {
  const Layer layer(1, 64, 256);
  GemmForward call = layer.call();
  call.attrs.act = ActKind::ReLU;
  const auto recall = [&call](const RecalledCandidate& known) {
    const auto backend = fake_device::fresh_backend();
    return lower(*backend, call, [&](std::size_t) { return &known; });
  };
  for (const char* name : {"fused/0", "fused/1", "fused/2"}) {
    const Task task = recall({name, name});
    CHECK(task.recalled);
    CHECK(fake_lt::state().loads == 0);
    CHECK(fake_device::names(task) == Names{"lt_bias", "epilogue", name});
    CHECK(task.candidates.back().recipe == name);
    CHECK(task.candidates.back().steps.size() == 1);
  }
  for (const RecalledCandidate& bad :
       {RecalledCandidate{"fused/3", "fused/3"}, RecalledCandidate{"fused/0", ""},
        RecalledCandidate{"fused/0", "fused/1"}, RecalledCandidate{"fused", "fused"},
        RecalledCandidate{"fused/outer", "fused/outer"}}) {
    CAPTURE(bad.name);
    const Task task = recall(bad);
    CHECK_FALSE(task.recalled);
    CHECK(task.queries > 0);
  }
}
