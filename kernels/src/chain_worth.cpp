#include "chain_worth.hpp"

#include <algorithm>

namespace ai::kernels::chain {
namespace {

// As cuBLASLt's f32 kernels were seen to take among others of a graph on an H200: a node, its way
// through the terms of a sum where there are several rows, until it is split, and arithmetic.
constexpr double kNodeUs = 2.1;
constexpr double kTermUs = 0.013;
constexpr double kMostTermsUs = 5.5;
constexpr double kReached = 0.45;     // of the peak
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
    const double latency = kNodeUs + (rows > 1 ? std::min(kTermUs * k, kMostTermsUs) : 0);
    us += std::max(
        {latency, 1e6 * bytes / machine.l2_bytes_per_s, 1e6 * 2 * rows * k * n / flop_per_s});
  }
  // Of one layer alone Z or the activation is a step of its own: for others there is no run of one.
  if (network.layers.size() == 1) {
    const double bytes = 2 * 4 * rows * network.layers.front().n;
    us += std::max(kNodeUs, 1e6 * bytes / machine.l2_bytes_per_s);
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
