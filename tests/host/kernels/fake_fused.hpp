#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ai/activation.hpp"
#include "ai/memory.hpp"
#include "fused.hpp"

/// The kernels of the family `fused` over host memory.
namespace fake_fused {

using ai::kernels::FusedArguments;
using ai::kernels::FusedForm;
using ai::kernels::FusedLoads;
using ai::kernels::FusedTarget;

/// Whether loads of fours find all operands as they must be.
inline bool may_load(const FusedArguments& args, FusedLoads loads) {
  const auto fours = [](const void* data, std::uint32_t step, bool has_steps) {
    return ai::alignment_of(data) >= 16 && (!has_steps || step % 4 == 0);
  };
  if (args.wide_l != 0 &&
      (!fours(args.l, args.l_m, args.m > 1) || args.l_k != 1 || args.k % 4 != 0)) {
    return false;
  }
  switch (loads) {
    case FusedLoads::AlongN:
      return fours(args.r, args.r_k, args.k > 1) && args.r_n == 1 && args.n % 4 == 0;
    case FusedLoads::AlongK:
      return fours(args.r, args.r_n, args.n > 1) && args.r_k == 1 && args.k % 4 == 0;
    case FusedLoads::Single: break;
  }
  return true;
}

template <ai::ActKind kAct>
void run(const FusedArguments& args, bool right) {
  const auto element = [](const FusedTarget& target, std::uint32_t row, std::uint32_t column) {
    return target.data + (row * target.row_step + column * target.column_step);
  };
  for (std::uint32_t row = 0; row < args.m; ++row) {
    for (std::uint32_t column = 0; column < args.n; ++column) {
      float z = 0.0F;
      for (std::uint32_t k = 0; k < args.k; ++k) {
        z += args.l[row * args.l_m + k * args.l_k] * args.r[k * args.r_k + column * args.r_n];
      }
      z *= args.alpha;
      if (args.c.data != nullptr) z += args.beta * *element(args.c, row, column);
      if (args.bias != nullptr) z += args.bias[row * args.bias_row + column * args.bias_column];
      if (!right) z = std::numeric_limits<float>::quiet_NaN();
      if (args.z.data != nullptr) *element(args.z, row, column) = z;
      *element(args.y, row, column) = ai::activation::apply<kAct>(z, args.slope);
    }
  }
}

/// Runs `kernel` if it is one of the family for `act`; results are NaN where it was not to be
/// launched like that. Returns whether it is.
inline bool run_if_fused(const void* kernel, ai::ActKind act, unsigned blocks, unsigned threads,
                         void** arguments) {
  const auto is = [kernel](ai::kernels::FusedKernel one) {
    return one != nullptr && kernel == reinterpret_cast<const void*>(one);
  };
  for (const int rows : {1, 2, 4, 8}) {
    for (const FusedLoads loads : {FusedLoads::AlongN, FusedLoads::AlongK, FusedLoads::Single}) {
      for (const int lanes_log2 : {0, 1, 3}) {
        if (!is(ai::kernels::fused_kernel(act, {rows, loads, lanes_log2}))) continue;
        const auto& args = *static_cast<const FusedArguments*>(arguments[0]);
        const std::uint32_t width = 4U << lanes_log2;
        const bool right = may_load(args, loads) && args.m <= static_cast<unsigned>(rows) &&
                           blocks == (args.n + width - 1) / width && threads <= 512 &&
                           (threads % 128 == 0 ? threads >= static_cast<unsigned>(rows) * width
                                               : threads == 32 && rows == 1);
        ai::activation::dispatch(act, [&]<ai::ActKind kAct>() { run<kAct>(args, right); });
        return true;
      }
    }
    for (const FusedLoads loads : {FusedLoads::AlongN, FusedLoads::Single}) {
      if (act != ai::ActKind::None || !is(ai::kernels::outer_kernel({rows, loads, 0}))) continue;
      const auto& args = *static_cast<const FusedArguments*>(arguments[0]);
      const auto in_fours = [](const FusedTarget& target) {
        return target.data == nullptr ||
               (ai::alignment_of(target.data) >= 16 && target.row_step % 4 == 0);
      };
      const bool right = loads == FusedLoads::Single ||
                         (may_load(args, loads) && in_fours(args.c) && in_fours(args.y));
      run<ai::ActKind::None>(args, right && args.k <= static_cast<unsigned>(rows) &&
                                       (1U << args.lanes_log2) <= threads &&
                                       (1U << args.parts_log2) <= blocks);
      return true;
    }
  }
  return false;
}

}  // namespace fake_fused
