#include <algorithm>

#include "chain_recipe.hpp"
#include "core/text.hpp"
#include "kernels/chain_grid.hpp"

namespace ai::kernels::chain {
namespace {

constexpr int kThreadCounts[] = {128, 256, 512};
constexpr int kCopies[] = {1, 2};
constexpr int kAheads[] = {1};
constexpr int kPauses[] = {900, 1200};
constexpr int kMostBlocks = 1024;
constexpr int kMostThreads = 512;
constexpr int kMostCopies = 8;
constexpr int kMostAhead = 16;
constexpr int kMostPause = 100'000;  // cycles
constexpr int kMostGridLayers = 31;  // they are told apart by the bits of a word
constexpr int kMostTerms = 1 << 20;  // beyond which shared memory ends anyway
constexpr int kRegisters = 16384;  // of a quarter of a multiprocessor, which has every fourth warp
constexpr int kOtherRegisters = 16;  // of a thread, beside weights, inputs and sums

// Cycles, fitted to what an H200 took for wide, ranking and legged of bench/suite.json, with 1 to 4
// rows: a cooperative launch, and until the first weights are there; a layer; from a block to all
// others; what every further row, and every further chunk of a thread, adds to a layer.
constexpr double kBegin = 5500;
constexpr double kLayer = 500;
constexpr double kHop = 1400;
constexpr double kRow = 1000;
constexpr double kChunk = 350;

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
    if (!take_number(rest, *number)) return std::nullopt;
  }
  // What follows, and whatever else could be written in several ways.
  if (!can_be(shape) || recipe_of(shape) != recipe) return std::nullopt;
  return shape;
}

std::string reason_against(const Network& network, const GridShape& shape, const Machine& machine) {
  if (network.input.rows > kGridRows) {
    return text("takes ", kGridRows, " rows, not ", network.input.rows);
  }
  if (depth_of(network) > kMostGridLayers) {
    return text("takes ", kMostGridLayers, " layers, not ", depth_of(network));
  }
  if (shape.blocks > machine.multiprocessors) {
    return text("needs ", shape.blocks, " multiprocessors of ", machine.multiprocessors);
  }
  for (const Layer& layer : network.layers) {
    if (layer.k > kMostTerms) return text("takes ", kMostTerms, " terms, not ", layer.k);
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
  const int depth = depth_of(network);
  double cycles = kBegin + depth * (kLayer + kRow * (network.input.rows - 1)) + (depth - 1) * kHop;
  double bytes = 0;
  for (const Layer& layer : network.layers) {
    bytes += 4.0 * layer.k * layer.n;
    cycles += kChunk * (grid_per_thread(layer, shape) - 1);
  }
  return cycles / machine.clock_hz * 1e6 + bytes / machine.l2_bytes_per_s * 1e6;
}

std::vector<GridShape> grid_shapes(const Network& network, const Machine& machine) {
  if (network.layers.size() < 2) return {};
  int blocks = 1;
  for (const Layer& layer : network.layers) blocks = std::max(blocks, grid_blocks(layer));
  // As few threads as there are with one chunk for each, or whatever has fewest.
  GridShape shape{blocks, kThreadCounts[0]};
  for (const int threads : kThreadCounts) {
    const int chunks = layout_of(network, {blocks, threads}).per_thread;
    if (chunks < layout_of(network, shape).per_thread) shape.threads = threads;
  }
  std::vector<GridShape> shapes;
  for (const int copies : kCopies) {
    for (const int ahead : kAheads) {
      for (const int pause : kPauses) {
        shape = {blocks, shape.threads, copies, ahead, pause};
        if (reason_against(network, shape, machine).empty()) shapes.push_back(shape);
      }
    }
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

}  // namespace ai::kernels::chain
