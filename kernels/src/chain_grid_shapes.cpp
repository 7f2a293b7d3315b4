#include <algorithm>
#include <charconv>

#include "core/text.hpp"
#include "kernels/chain_grid.hpp"

namespace ai::kernels::chain {
namespace {

constexpr int kThreadCounts[] = {128, 256, 512};
constexpr int kCopies[] = {1, 4};
constexpr int kMostBlocks = 1024;
constexpr int kMostThreads = 512;
constexpr int kMostCopies = 8;
constexpr int kMostAhead = 16;
constexpr int kMostPause = 100'000;  // cycles
constexpr int kMostLayers = 31;      // they are told apart by the bits of a word
constexpr int kRegisters = 16384;  // of a quarter of a multiprocessor, which has every fourth warp
constexpr int kOtherRegisters = 16;  // of a thread, beside weights, inputs and sums

// Cycles, fitted to what an H200 took for the networks of bench/suite.json.
constexpr double kBegin = 3300;  // a cooperative launch, and until the first weights are there
constexpr double kLayer = 500;
constexpr double kHop = 900;       // from a block to all others
constexpr double kMore = 0.25;     // of a layer, for each row or chunk of a thread after the first
constexpr double kReached = 0.55;  // of what L2 gives, by 32 bytes at a time

int depth_of(const Network& network) {
  return static_cast<int>(network.layers.size());
}

GridLayout layout_of(const Network& network, const GridShape& shape) {
  return grid_layout(network.layers.data(), depth_of(network), network.input, shape);
}

int registers_of(const Network& network, const GridShape& shape) {
  const int rows = grid_rows(network.input);
  const int chunks = layout_of(network, shape).per_thread;
  const int inputs = 2 * kGridTerms * rows * chunks;
  const int sums = 4 * rows;
  int weights = grid_early(chunks, network.input) ? kGridTerms * 4 * chunks : kGridTerms * 4;
  if (grid_direct(network.layers.data(), network.input, shape)) weights += kGridTerms * 4;
  return kOtherRegisters + weights + inputs + sums;
}

int registers_for(int threads) {
  const int warps = (threads / kWarp + 3) / 4;
  return kRegisters / kWarp / warps / 8 * 8;
}

bool can_be(const GridShape& shape) noexcept {
  return shape.blocks >= 1 && shape.blocks <= kMostBlocks && shape.threads >= kWarp &&
         shape.threads <= kMostThreads && shape.threads % kWarp == 0 && shape.copies >= 1 &&
         shape.copies <= kMostCopies && shape.ahead >= 0 && shape.ahead <= kMostAhead &&
         shape.pause >= 0 && shape.pause <= kMostPause;
}

/// Takes a space and a number off the front of `text`.
bool take(std::string_view& text, int& number) noexcept {
  if (!text.starts_with(' ')) return false;
  const auto [at, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()));
  return true;
}

}  // namespace

std::string name_of(const GridShape& shape) {
  std::string name = text("grid/", shape.blocks, "x", shape.threads, "x", shape.copies);
  if (shape.ahead > 0) name += text("/ahead", shape.ahead);
  if (shape.pause > 0) name += text("/pause", shape.pause);
  return name;
}

std::string recipe_of(const GridShape& shape) {
  return text("grid ", shape.blocks, " ", shape.threads, " ", shape.copies, " ", shape.ahead, " ",
              shape.pause);
}

std::string initializer_of(const GridShape& shape) {
  return text("{", shape.blocks, ", ", shape.threads, ", ", shape.copies, ", ", shape.ahead, ", ",
              shape.pause, "}");
}

std::optional<GridShape> parse_grid_recipe(std::string_view recipe) {
  constexpr std::string_view kFamily = "grid";
  if (!recipe.starts_with(kFamily)) return std::nullopt;
  std::string_view rest = recipe.substr(kFamily.size());
  GridShape shape;
  for (int* number : {&shape.blocks, &shape.threads, &shape.copies, &shape.ahead, &shape.pause}) {
    if (!take(rest, *number)) return std::nullopt;
  }
  // What follows, and whatever else could be written in several ways.
  if (!can_be(shape) || recipe_of(shape) != recipe) return std::nullopt;
  return shape;
}

std::string reason_against(const Network& network, const GridShape& shape, const Machine& machine) {
  if (network.input.rows > kGridRows) {
    return text("takes ", kGridRows, " rows, not ", network.input.rows);
  }
  if (depth_of(network) > kMostLayers) {
    return text("takes ", kMostLayers, " layers, not ", depth_of(network));
  }
  if (shape.blocks > machine.multiprocessors) {
    return text("needs ", shape.blocks, " multiprocessors of ", machine.multiprocessors);
  }
  for (const Layer& layer : network.layers) {
    if (grid_blocks(layer) > shape.blocks) {
      return text("needs ", grid_blocks(layer), " blocks of ", shape.blocks, " for ", layer.n,
                  " columns");
    }
  }
  const int shared = 4 * layout_of(network, shape).shared;
  if (shared > machine.limits.shared_bytes) {
    return text("needs ", shared, " bytes of shared memory of ", machine.limits.shared_bytes);
  }
  const int registers = registers_of(network, shape);
  const int there = std::min(machine.limits.registers, registers_for(grid_threads(shape)));
  if (registers > there) return text("needs ", registers, " registers of ", there);
  return {};
}

double estimate_us(const Network& network, const GridShape& shape, const Machine& machine) {
  const double fetched = kReached * machine.l2_bytes_per_s / machine.clock_hz / shape.blocks;
  const int rows = grid_rows(network.input);
  double cycles = kBegin;
  double there = kBegin;  // when the weights of a layer are
  for (int l = 0; l < depth_of(network); ++l) {
    const Layer& layer = network.layers[static_cast<std::size_t>(l)];
    const double weights = 4.0 * grid_weights(layer) * grid_blocks(layer) / shape.blocks;
    there += weights / fetched;
    const int work = grid_per_thread(layer, shape) * rows;
    cycles = std::max(cycles + (l > 0 ? kHop : 0), there) + kLayer * (1 + kMore * (work - 1));
  }
  // More copies are more stores; without them blocks queue for one place.
  if (shape.copies == 1) cycles += 100.0 * depth_of(network) * shape.blocks / 128;
  return cycles / machine.clock_hz * 1e6;
}

std::vector<GridShape> grid_shapes(const Network& network, const Machine& machine) {
  if (network.layers.size() < 2) return {};
  int most = 1;
  int all = 0;
  for (const Layer& layer : network.layers) {
    most = std::max(most, grid_blocks(layer));
    all += grid_blocks(layer);
  }
  std::vector<GridShape> shapes;
  const int spread = std::min(all, machine.multiprocessors);
  for (const int blocks : {most, std::max(spread, most)}) {
    for (const int threads : kThreadCounts) {
      for (const int copies : kCopies) {
        const GridShape shape{blocks, threads, copies, 0};
        // With few chunks for all threads, or with too many for one, others are quicker.
        const int chunks = layout_of(network, shape).per_thread;
        const GridShape half{blocks, threads / 2, copies, 0};
        const bool smaller = threads > kThreadCounts[0] && layout_of(network, half).per_thread == 1;
        if (chunks > 2 || smaller || (copies > 1 && blocks <= 32)) continue;
        if (reason_against(network, shape, machine).empty()) shapes.push_back(shape);
      }
    }
    if (spread <= most) break;
  }
  return shapes;
}

LaunchShape launch_shape(const Network& network, const GridShape& shape) {
  LaunchShape launch;
  launch.blocks = shape.blocks;
  launch.threads = grid_threads(shape);
  launch.shared_bytes = sizeof(float) * static_cast<std::size_t>(layout_of(network, shape).shared);
  launch.cooperative = true;
  return launch;
}

std::size_t state_bytes(const Network& network, const GridShape& shape) {
  const auto words = static_cast<std::size_t>(layout_of(network, shape).words);
  const auto records = static_cast<std::size_t>(shape.blocks) * kGridRecord;
  return sizeof(unsigned) * (records + 2 * static_cast<std::size_t>(shape.copies) * words);
}

std::size_t scratch_bytes(const Network&, const GridShape&) {
  return 0;
}

}  // namespace ai::kernels::chain
