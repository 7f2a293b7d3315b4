#include "chain_worth.hpp"

#include <algorithm>

namespace ai::kernels::chain {
namespace {

constexpr double kNodeUs = 2.1;       // of a small product, among others, on an H200
constexpr double kReached = 0.75;     // of the peak
constexpr double kFmaPerClock = 128;  // of a multiprocessor
constexpr double kMostIfMeasured = 1.5;
constexpr double kMostUnmeasured = 0.9;

}  // namespace

double plan_by_plan_us(const Network& network, const Machine& machine) {
  const double flop_per_s =
      kReached * 2 * kFmaPerClock * machine.clock_hz * machine.multiprocessors;
  const double rows = network.input.rows;
  double us = 0;
  for (const Layer& layer : network.layers) {
    const double k = layer.k;
    const double n = layer.n;
    const double bytes = 4 * (k * n + rows * (k + n));
    us += std::max(
        {kNodeUs, 1e6 * bytes / machine.l2_bytes_per_s, 1e6 * 2 * rows * k * n / flop_per_s});
  }
  return us;
}

std::vector<Form> worthwhile(const Network& network, std::vector<Form> forms,
                             const Machine& machine, bool measured) {
  const double most =
      (measured ? kMostIfMeasured : kMostUnmeasured) * plan_by_plan_us(network, machine);
  std::erase_if(forms,
                [&](const Form& form) { return estimate_us(network, form, machine) > most; });
  return forms;
}

}  // namespace ai::kernels::chain
