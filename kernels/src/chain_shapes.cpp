#include "kernels/chain_shapes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/text.hpp"

namespace ai::kernels::chain {
namespace {

constexpr int kSlabs[] = {1, 2, 4, 8};
constexpr int kClusters[] = {1, 2, 4, 8, 16};
constexpr int kThreadCounts[] = {32, 64, 128, 192, 256, 384, 512};
constexpr int kColumns[] = {1, 2};

// Cycles, fitted to what an H200 took for 391 shapes of the networks of bench/suite.json, replay
// after replay. A launch, and the first loads; what a cluster adds to that, with its first block
// and with each.
constexpr double kBegin = 2730;
constexpr double kBeginCluster = 70;
constexpr double kBeginBlock = 54;
// What follows one another in a layer however small it is: a barrier, loads of shared memory, sums
// over a warp; what staging adds to that; a part of a sum, one of its terms.
constexpr double kLayer = 350;
constexpr double kStage = 18;
constexpr double kPart = 9.2;
constexpr double kTerm = 2.2;
// What a cluster adds to a layer, what more each of its blocks does, and each value that a thread
// or, where they are too many, a block sends.
constexpr double kExchange = 180;
constexpr double kBlock = 8.2;
constexpr double kSend = 3.1;
// What a multiprocessor does in a cycle: instructions, accesses to shared memory, bytes of L2.
constexpr double kIssue = 2.7;
constexpr double kAccess = 0.7;
constexpr double kFetch = 70;
// Of a layer whose weights are not requested at once; not fitted, a part of what L2 takes to
// answer.
constexpr double kLate = 300;
// A cluster lies within a part of the device, and such parts are not all full.
constexpr double kPacked = 0.93;
// Registers that are left free where weights take turns: the compiler moves requests about.
constexpr int kSlack = 64;
constexpr int kThreadsAtOnce = 2048;
constexpr int kRegisters = 65536;

/// Of a layer, where a multiprocessor has `held` blocks at once. Whatever is done takes as long as
/// a thread takes for its own part, or as the multiprocessor takes for those of all.
double cycles_of(const Layer& layer, const Shape& shape, int held) {
  const Share share = share_of(layer, shape);
  const double warps = static_cast<double>(shape.threads) / kWarp;
  const double sums = static_cast<double>(share.terms) * share.per_thread * shape.slab;
  const double loads = static_cast<double>(share.terms) * shape.slab / 4;
  const double results = static_cast<double>(share.columns) * shape.slab;
  const double copies = shape.staged ? 1 : std::min(share.groups, shape.cluster);
  const double in_a_row =
      shape.staged ? results / shape.threads + 1 : share.per_thread * shape.slab;
  double cycles = kLayer;
  cycles += std::max(kTerm * sums, held * warps * (sums / kIssue + loads / kAccess));
  cycles += std::max(kPart * share.parts * in_a_row,
                     held * copies * results * share.parts / kWarp / kAccess);
  if (shape.staged) cycles += kStage;
  if (shape.cluster > 1) {
    const double sent = results * shape.cluster;
    const double own = shape.staged ? sent / 4 / shape.threads : 1;
    cycles += kExchange + kBlock * shape.cluster;
    cycles += std::max(kSend * own, held * kSend * sent / kWarp);
  }
  return cycles;
}

/// Blocks that a multiprocessor holds at once.
int resident(const Layout& layout, int depth, const Shape& shape, const Limits& limits) {
  const int registers = round_up(layout.registers + other_registers(depth), 8) * shape.threads;
  const int shared = 4 * layout.shared + 1024;
  return std::max(1, std::min({kRegisters / registers, kThreadsAtOnce / shape.threads,
                               limits.shared_bytes / shared}));
}

Limits limits_of(const Shape& shape, const Machine& machine) {
  Limits limits = machine.limits;
  limits.registers = std::min({limits.registers, 255, kRegisters / shape.threads});
  return limits;
}

/// As many weights as registers are left for.
int widest_window(const Network& network, const Shape& shape, const Machine& machine) {
  const Layer* const layers = network.layers.data();
  const auto depth = static_cast<int>(network.layers.size());
  const Layout layout = layout_of(layers, depth, shape);
  const int others = layout.registers - most_held(layers, depth, shape) + other_registers(depth);
  return limits_of(shape, machine).registers - others - kSlack;
}

struct Estimated {
  Shape shape;
  double us;
};

std::vector<Estimated> all_shapes(const Network& network, const Machine& machine, bool windows) {
  std::vector<Estimated> all;
  for (const int slab : kSlabs) {
    if (slab > 1 && slab / 2 >= network.input.rows) continue;
    for (const int cluster : kClusters) {
      for (const int threads : kThreadCounts) {
        for (const int columns : kColumns) {
          for (const bool staged : {false, true}) {
            if (staged && slab == 1) continue;
            Shape shape{slab, cluster, threads, columns, staged};
            if (windows) shape.window = std::max(widest_window(network, shape, machine), 1);
            if (!reason_against(network, shape, machine).empty()) continue;
            all.push_back({shape, estimate_us(network, shape, machine)});
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

double estimate_us(const Network& network, const Shape& shape, const Machine& machine) {
  const auto depth = static_cast<int>(network.layers.size());
  const Layout layout = layout_of(network.layers.data(), depth, shape);
  const int clusters = (network.input.rows + shape.slab - 1) / shape.slab;
  const double packed = shape.cluster > 1 ? kPacked : 1;
  const int side_by_side =
      std::max(1, static_cast<int>(packed * machine.multiprocessors / shape.cluster));
  const int held = std::min((clusters + side_by_side - 1) / side_by_side,
                            resident(layout, depth, shape, machine.limits));
  const int waves = (clusters + side_by_side * held - 1) / (side_by_side * held);
  double wave = kLate * (depth - requested(network.layers.data(), depth, shape, 0));
  double bytes = 0;
  for (const Layer& layer : network.layers) {
    bytes += static_cast<double>(layer.k) * layer.n * 4 / shape.cluster;
    wave += cycles_of(layer, shape, held);
  }
  // Every cluster fetches all weights.
  const double busy = std::min(clusters, side_by_side) * shape.cluster;
  wave += held * bytes / std::min(kFetch, machine.l2_bytes_per_s / machine.clock_hz / busy);
  double begin = kBegin;
  if (shape.cluster > 1) begin += kBeginCluster + kBeginBlock * shape.cluster;
  return (begin + waves * wave) / machine.clock_hz * 1e6;
}

std::string reason_against(const Network& network, const Shape& shape, const Machine& machine) {
  return reason_against(network, shape, limits_of(shape, machine));
}

std::string reason_against(const Network& network, const Shape& shape, const Limits& limits) {
  const auto more = [](const char* what, int needed, int there) {
    return std::string("needs ") + std::to_string(needed) + " " + what + " of " +
           std::to_string(there);
  };
  if (shape.cluster > limits.cluster) {
    return more("blocks a cluster", shape.cluster, limits.cluster);
  }
  const auto depth = static_cast<int>(network.layers.size());
  const Layout layout = layout_of(network.layers.data(), depth, shape);
  if (layout.shared > limits.shared_bytes / 4) {
    return more("bytes of shared memory", 4 * layout.shared, limits.shared_bytes);
  }
  const int registers = layout.registers + other_registers(depth);
  if (registers > limits.registers) return more("registers", registers, limits.registers);
  return {};
}

LaunchShape launch_shape(const Network& network, const Shape& shape) noexcept {
  const auto depth = static_cast<int>(network.layers.size());
  const Layout layout = layout_of(network.layers.data(), depth, shape);
  LaunchShape launch;
  const std::int64_t slabs = (std::int64_t{network.input.rows} + shape.slab - 1) / shape.slab;
  launch.blocks = slabs * shape.cluster;
  launch.threads = shape.threads;
  launch.shared_bytes = sizeof(float) * static_cast<std::size_t>(layout.shared);
  launch.cluster = shape.cluster;
  return launch;
}

std::string initializer_of(const Shape& shape) {
  return text("{", shape.slab, ", ", shape.cluster, ", ", shape.threads, ", ", shape.columns, ", ",
              shape.staged ? "true" : "false", ", ", shape.window, "}");
}

std::vector<Shape> shapes_for(const Network& network, const Machine& machine, std::size_t count) {
  std::vector<Estimated> all = all_shapes(network, machine, false);
  if (all.empty()) all = all_shapes(network, machine, true);
  std::stable_sort(all.begin(), all.end(),
                   [](const Estimated& a, const Estimated& b) { return a.us < b.us; });
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < std::min(count, all.size()); ++i) shapes.push_back(all[i].shape);
  return shapes;
}

}  // namespace ai::kernels::chain
