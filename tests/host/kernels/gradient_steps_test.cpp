#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "activation_grad.hpp"
#include "fake_device.hpp"
#include "kernels/gradients.hpp"
#include "matrix.hpp"

using ai::ActKind;
using ai::BiasKind;
using ai::Candidate;
using ai::GemmBackward;
using ai::GradMode;

namespace {

struct Operands {
  explicit Operands(std::int64_t m = 64, std::int64_t n = 12)
      : a(m, 2),
        b(2, n),
        gy(m, n, 4),
        z(m, n, 8),
        c(m, n),
        gc(m, n, 12),
        per_n(1, n),
        per_m(m, 1, 2),
        ga(m, 2) {}
  Matrix a, b, gy, z, c, gc, scalar{1, 1}, per_n, per_m, ga;

  [[nodiscard]] Matrix& bias(BiasKind kind) {
    if (kind == BiasKind::Scalar) return scalar;
    return kind == BiasKind::PerN ? per_n : per_m;
  }
  /// gA is always asked for, so that any of the others may be left out.
  [[nodiscard]] GemmBackward call(ActKind act) const {
    GemmBackward call = {.A = a.tensor(), .B = b.tensor(), .gY = gy.tensor(), .gA = ga.tensor()};
    call.attrs.act = act;
    if (act != ActKind::None) call.Z = z.tensor();
    return call;
  }
};

std::vector<Candidate> candidates_of(const GemmBackward& call, void* gz) {
  const ai::Result<ai::GemmPlan> plan = ai::plan_backward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  return ai::kernels::gradient_task(fake_device::api(), 132, *plan, gz).candidates;
}

bool same(const ai::MemoryRange& a, const ai::MemoryRange& b) {
  return a.begin == b.begin && a.rows == b.rows && a.width == b.width &&
         (a.rows == 1 || a.pitch == b.pitch);
}

/// The operands that ranges are, in order: "gY Z ". Scratch of a step's own is "partial".
class Booked {
 public:
  Booked(const GemmBackward& call, const void* gz) {
    names_.push_back({ai::range_of(call.gY), "gY"});
    if (call.Z) names_.push_back({ai::range_of(*call.Z), "Z"});
    if (call.gC) names_.push_back({ai::range_of(call.gC->tensor), "gC"});
    if (call.gBias) {
      const ai::Result<ai::GemmPlan> plan = ai::plan_backward(call);
      names_.push_back({ai::range_of(plan->backward().gBias->tensor), "gBias"});
    }
    const auto bytes = static_cast<std::size_t>(call.gY.desc.shape[0] * call.gY.desc.shape[1] * 4);
    if (gz != nullptr) names_.push_back({packed(ai::range_of(gz, bytes), call), "gZ"});
  }

  std::string operator()(const std::vector<ai::MemoryRange>& ranges) {
    std::string text;
    for (const ai::MemoryRange& range : ranges) {
      std::string name = "?";
      for (const auto& [known, its_name] : names_) {
        if (same(range, known)) name = its_name;
      }
      if (name == "?" && ai::symbolic::is_symbolic(reinterpret_cast<const void*>(range.begin))) {
        name = "partial";
        names_.push_back({range, name});  // whoever reads it must read all of it
      }
      text += name + " ";
    }
    return text;
  }

 private:
  static ai::MemoryRange packed(ai::MemoryRange range, const GemmBackward& call) {
    range.rows = call.gY.desc.shape[0];
    range.width = range.pitch = call.gY.desc.shape[1] * 4;
    return range;
  }
  std::vector<std::pair<ai::MemoryRange, std::string>> names_;
};

}  // namespace

TEST_CASE("the steps of every gradient candidate book all that they read and write") {
  (void)fake_device::fresh_backend();
  const auto modes = {GradMode::Overwrite, GradMode::Accumulate};
  int seen = 0;
  for (const ActKind act : {ActKind::None, ActKind::ReLU, ActKind::GELU}) {
    for (const BiasKind kind : {BiasKind::None, BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
      for (const GradMode bias_mode : modes) {
        for (const bool with_c : {false, true}) {
          for (const GradMode c_mode : modes) {
            for (const float beta : {0.0F, 2.0F}) {
              for (const bool with_gz : {false, true}) {
                CAPTURE(act);
                CAPTURE(static_cast<int>(kind));
                CAPTURE(static_cast<int>(bias_mode));
                CAPTURE(with_c);
                CAPTURE(static_cast<int>(c_mode));
                CAPTURE(beta);
                CAPTURE(with_gz);
                Operands o;
                GemmBackward call = o.call(act);
                call.attrs.beta = beta;
                if (with_c) {
                  call.C = o.c.tensor();
                  call.gC = ai::Gradient(o.gc.tensor(), c_mode);
                }
                if (kind != BiasKind::None) {
                  call.gBias = ai::Gradient(o.bias(kind).tensor(), bias_mode);
                }
                void* gz = with_gz ? ai::symbolic::allocate(64 * 12 * 4) : nullptr;

                // Zero times anything adds nothing, and the old gC stays as it is.
                const bool touches_c = with_c && (beta != 0.0F || c_mode == GradMode::Overwrite);
                const bool reads_c = touches_c && c_mode == GradMode::Accumulate;
                const std::string z = act != ActKind::None ? "Z " : "";
                const std::string old_bias =
                    kind != BiasKind::None && bias_mode == GradMode::Accumulate ? "gBias " : "";
                const std::string matrices_in = "gY " + z + (reads_c ? "gC " : "");
                const std::string matrices_out =
                    std::string(with_gz ? "gZ " : "") + (touches_c ? "gC " : "");
                const std::string bias = kind != BiasKind::None ? "gBias " : "";

                const std::vector<Candidate> candidates = candidates_of(call, gz);
                CHECK(candidates.empty() == (matrices_out + bias).empty());
                for (const Candidate& candidate : candidates) {
                  CAPTURE(candidate.name);
                  // Without a GPU, CUB cannot say how much scratch it takes.
                  if (candidate.reason.find("CUB cannot plan it") == 0) {
                    CHECK(candidate.reason.find(kind == BiasKind::PerM
                                                    ? ": cub::DeviceSegmentedReduce::Reduce failed"
                                                    : ": cub::DeviceReduce::Reduce failed") !=
                          std::string::npos);
                  }
                  if (!candidate.applicable()) continue;
                  Booked booked(call, gz);
                  const auto& steps = candidate.steps;
                  ++seen;
                  if (candidate.name == "activation_grad" ||
                      candidate.name == "activation_grad/rows" ||
                      candidate.name == "activation_grad/tiles") {
                    REQUIRE(steps.size() == 1);
                    CHECK(booked(steps[0]->reads()) == matrices_in + old_bias);
                    CHECK(booked(steps[0]->writes()) == matrices_out + bias);
                  } else if (candidate.name == "activation_grad+bias_grad") {
                    REQUIRE(steps.size() == 2);
                    CHECK(booked(steps[0]->reads()) == matrices_in);
                    CHECK(booked(steps[0]->writes()) == matrices_out + "partial ");
                    CHECK(booked(steps[1]->reads()) == "partial " + old_bias);
                    CHECK(booked(steps[1]->writes()) == bias);
                    CHECK(ai::depends_on(*steps[1], *steps[0]));
                  } else {
                    REQUIRE(steps.size() == 1);
                    CHECK(booked(steps[0]->reads()) == matrices_in + old_bias);
                    CHECK(booked(steps[0]->writes()) == bias + "partial ");
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  CHECK(seen > 300);
}

TEST_CASE("gradients are loaded in fours only where every operand allows it [C13]") {
  (void)fake_device::fresh_backend();
  const auto vectors = [](const Matrix& gy, const Matrix& z, const Matrix& gz, std::int64_t n) {
    const Operands o(64, n);
    GemmBackward call = o.call(ActKind::ReLU);
    call.gY = gy.tensor();
    call.Z = z.tensor();
    void* symbol = ai::symbolic::allocate(64 * 16 * 4);
    const std::vector<Candidate> candidates = candidates_of(call, symbol);
    REQUIRE(candidates.back().name == "activation_grad");
    ai::AddressMap addresses;
    addresses.add(reinterpret_cast<std::uintptr_t>(symbol), 64 * 16 * 4, gz.data());
    REQUIRE(candidates.back().steps.at(0)->enqueue(addresses, nullptr).ok());
    const auto kernel = [](bool fours) {
      return reinterpret_cast<const void*>(ai::kernels::gradient_kernel(
          ActKind::ReLU, {.along_rows = false, .with_c = false, .vectors = fours}));
    };
    const void* launched = fake_device::state().launches.back().kernel;
    REQUIRE((launched == kernel(true)) != (launched == kernel(false)));
    return launched == kernel(true);
  };
  const Matrix even(64, 12, 4), odd_ld(64, 12, 1), shifted(64, 12, 4, 1), by_four(64, 12, 4, 4);
  CHECK(vectors(even, even, even, 12));
  CHECK(vectors(by_four, even, by_four, 12));
  for (const Matrix* other : {&odd_ld, &shifted}) {
    CHECK_FALSE(vectors(*other, even, even, 12));
    CHECK_FALSE(vectors(even, *other, even, 12));
  }
  CHECK_FALSE(vectors(even, even, shifted, 12));  // gZ is packed; only its address can be odd
  const Matrix narrow(64, 6, 2);
  CHECK_FALSE(vectors(narrow, narrow, narrow, 6));
}

TEST_CASE("gBias over no rows or no columns is zeros in Overwrite and stays in Accumulate [C2]") {
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{0, 12}, {64, 0}, {0, 0}}) {
    for (const BiasKind kind : {BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
      for (const GradMode mode : {GradMode::Overwrite, GradMode::Accumulate}) {
        for (const ActKind act : {ActKind::None, ActKind::GELU}) {
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(static_cast<int>(kind));
          CAPTURE(static_cast<int>(mode));
          const auto backend = fake_device::fresh_backend();
          Operands o(m, n);
          Matrix& bias = o.bias(kind);
          bias.fill(7.0F);
          GemmBackward call = o.call(act);
          call.gA.reset();
          call.gBias = ai::Gradient(bias.tensor(), mode);
          const ai::Result<ai::GemmPlan> plan = ai::plan_backward(call);
          REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
          const auto tasks = backend->lower({&*plan, 1});
          REQUIRE_MESSAGE(tasks.ok(), tasks.status().to_string());
          for (const ai::Task& task : *tasks) {
            REQUIRE(fake_device::Runner().run(task.candidates.back()).ok());
          }
          const std::int64_t rows = kind == BiasKind::PerM ? m : 1;
          const std::int64_t cols = kind == BiasKind::PerN ? n : 1;
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < cols; ++c) {
              CHECK(bias.at(r, c) == (mode == GradMode::Overwrite ? 0.0F : 7.0F));
            }
          }
          CHECK(bias.padding_is_untouched());
        }
      }
    }
  }
}
