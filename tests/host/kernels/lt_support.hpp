#pragma once

#include <doctest/doctest.h>

#include <memory>

#include "fake_device.hpp"
#include "kernels/lt_matmul.hpp"
#include "matrix.hpp"

namespace lt_test {

using ai::kernels::matrix_view;
using ai::kernels::Product;

/// A context over the fakes, both in their first state, and steps of algorithm 42 in it.
struct Fixture {
  Fixture() {
    (void)fake_device::fresh_backend();
    auto made = ai::kernels::LtContext::make(fake_device::api(), fake_lt::api());
    REQUIRE(made.ok());
    context = *made;
  }
  std::shared_ptr<ai::Step> step(const ai::kernels::LtCall& call, std::size_t workspace = 0) {
    auto matmul = ai::kernels::LtMatmul::make(context, call);
    REQUIRE(matmul.ok());
    ai::kernels::LtAlgorithm algorithm = {.algo = {}, .workspace_bytes = workspace};
    algorithm.algo.data[0] = 42;
    return ai::kernels::make_lt_step("step", *matmul, algorithm);
  }
  std::shared_ptr<const ai::kernels::LtContext> context;
};

inline Product product_of(const Matrix& l, const Matrix& r, const Matrix& d) {
  return {.l = matrix_view(l.tensor()),
          .r = matrix_view(r.tensor()),
          .c = {},
          .d = matrix_view(d.tensor())};
}

}  // namespace lt_test
