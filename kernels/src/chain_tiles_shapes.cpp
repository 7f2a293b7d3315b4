#include <algorithm>
#include <cstdint>

#include "chain_recipe.hpp"
#include "core/text.hpp"
#include "kernels/chain_tiles.hpp"

namespace ai::kernels::chain {
namespace {

constexpr int kGroupRows[] = {16, 32, 64, 128};
constexpr int kChunks[] = {32, 16};
constexpr int kMostMembers = 1024;
constexpr int kFewestSlots = 2;
constexpr int kMostSlots = 4;
constexpr int kMostAhead = 16;
constexpr int kMostStages = 16;  // tiles of a block, one after another: each has code of its own
constexpr int kFewestRows = 8;
constexpr std::size_t kMostShapes = 3;

// Cycles, fitted to what an H200 took for 128 rows of 479-1024-1024-512-256-1 and 256 rows of four
// layers of 1024: a cooperative launch; until the first values are there; sums over warps, of a
// result too; what is left of a multiprocessor's 128 products a cycle; from the last result of a
// layer until others see it.
constexpr double kBegin = 3500;
constexpr double kFirst = 400;
constexpr double kFold = 700;
constexpr double kResult = 0.5;
constexpr double kReached = 0.67;
constexpr double kReachedByHalfLines = 0.64;  // chunks of 16
constexpr double kHop = 1200;
constexpr double kFetch = 31;      // bytes
constexpr double kCopyOfFour = 4;  // of a warp, 4 bytes a lane: a cycle each, and more to come
constexpr double kNarrow = 600;

int depth_of(const Network& network) {
  return static_cast<int>(network.layers.size());
}

TilesLayout layout_of(const Network& network, const TilesShape& shape) {
  return tiles_layout(network.layers.data(), depth_of(network), shape);
}

int tiled_of(const Network& network) {
  return tiled_of(network.layers.data(), depth_of(network));
}

/// As long as it may be: a huge layer has more tiles than an int counts.
std::int64_t stages_of(const Network& network, const TilesShape& shape) {
  std::int64_t stages = 0;
  for (int l = 0; l < tiled_of(network); ++l) {
    stages += tile_of(network.layers[static_cast<std::size_t>(l)], shape).rounds;
  }
  return stages;
}

/// That a group has of one layer.
int most_tiles(const Network& network, const TilesShape& shape) {
  int most = 1;
  for (int l = 0; l < tiled_of(network); ++l) {
    const Tile tile = tile_of(network.layers[static_cast<std::size_t>(l)], shape);
    most = std::max(most, tile.across * tile.down);
  }
  return most;
}

bool can_be(const TilesShape& shape) noexcept {
  return std::ranges::count(kGroupRows, shape.group) == 1 && shape.members >= 1 &&
         shape.members <= kMostMembers && std::ranges::count(kChunks, shape.chunk) == 1 &&
         shape.slots >= kFewestSlots && shape.slots <= kMostSlots && shape.ahead >= shape.slots &&
         shape.ahead <= kMostAhead;
}

double cycles_of(const Network& network, int l, const TilesShape& shape) {
  const Layer& layer = network.layers[static_cast<std::size_t>(l)];
  const Tile tile = tile_of(layer, shape);
  const double terms = static_cast<double>(tile.terms) * kTilesWarps;
  const double results = static_cast<double>(tile.rows) * tile.columns;
  const bool half_lines = tile.chunk * 4 < 128;
  const double inputs = terms * tile.rows;
  const double weights = terms * tile.columns;
  const double bytes = 4 * (inputs * (half_lines ? 2 : 1) + weights);
  const double products = results * terms / 128 / (half_lines ? kReachedByHalfLines : kReached);
  double copies = 0;
  if (l == 0 && !(network.input.x16 && network.input.x_k == 1)) copies += inputs / kWarp;
  if (!(layer.w16 && layer.w_n == 1)) copies += weights / kWarp;
  const double first = kFirst + 4 * tile.chunk * kTilesWarps * tile.rows / kFetch;
  return tile.rounds * (first + std::max(products, bytes / kFetch) + kCopyOfFour * copies + kFold +
                        kResult * results);
}

/// Then smaller groups are better: less waits for less.
bool has_same_tiles(const Network& network, const TilesShape& a, const TilesShape& b) {
  return std::ranges::all_of(network.layers, [&](const Layer& layer) {
    const Tile first = tile_of(layer, a);
    const Tile second = tile_of(layer, b);
    return first.rows == second.rows && first.columns == second.columns &&
           first.chunk == second.chunk;
  });
}

int room_ahead(const Network& network, TilesShape shape, const Machine& machine) {
  const TilesLayout layout = layout_of(network, shape);
  int most = shape.slots;
  for (int l = 0; l < tiled_of(network); ++l) {
    most = std::max(most, tile_of(network.layers[static_cast<std::size_t>(l)], shape).chunks);
  }
  const int left = machine.limits.shared_bytes / 4 - layout.weights_at;
  return std::min({most, kMostAhead, left / (kTilesWarps * layout.weights)});
}

}  // namespace

std::string name_of(const TilesShape& shape) {
  return text("tiles/", shape.group, "x", shape.members, "/", shape.chunk, "x", shape.slots,
              "/ahead", shape.ahead, shape.tall ? "/tall" : "");
}

std::string recipe_of(const TilesShape& shape) {
  return text("tiles ", shape.group, " ", shape.members, " ", shape.chunk, " ", shape.slots, " ",
              shape.ahead, " ", shape.tall ? 1 : 0);
}

std::optional<TilesShape> parse_tiles_recipe(std::string_view recipe) {
  constexpr std::string_view kFamily = "tiles";
  if (!recipe.starts_with(kFamily)) return std::nullopt;
  std::string_view rest = recipe.substr(kFamily.size());
  TilesShape shape;
  int tall = 0;
  for (int* number :
       {&shape.group, &shape.members, &shape.chunk, &shape.slots, &shape.ahead, &tall}) {
    if (!take_number(rest, *number)) return std::nullopt;
  }
  shape.tall = tall == 1;
  // What follows, and whatever else could be written in several ways.
  if (!can_be(shape) || recipe_of(shape) != recipe) return std::nullopt;
  return shape;
}

std::string initializer_of(const TilesShape& shape) {
  return text("{", shape.group, ", ", shape.members, ", ", shape.chunk, ", ", shape.slots, ", ",
              shape.ahead, ", ", shape.tall ? "true" : "false", "}");
}

std::string reason_against(const Network& network, const TilesShape& shape,
                           const Machine& machine) {
  const std::int64_t blocks =
      std::int64_t{groups_of(network.input, shape)} * std::int64_t{shape.members};
  if (blocks > machine.multiprocessors) {
    return text("needs ", blocks, " multiprocessors of ", machine.multiprocessors);
  }
  if (const std::int64_t stages = stages_of(network, shape); stages > kMostStages) {
    return text("takes ", kMostStages, " tiles a block, not ", stages);
  }
  if (const int busy = most_tiles(network, shape); shape.members > busy) {
    return text("has ", shape.members, " blocks for ", busy, " tiles of a group");
  }
  const std::int64_t shared = 4 * std::int64_t{layout_of(network, shape).shared};
  if (shared > machine.limits.shared_bytes) {
    return text("needs ", shared, " bytes of shared memory of ", machine.limits.shared_bytes);
  }
  return {};
}

double estimate_us(const Network& network, const TilesShape& shape, const Machine& machine) {
  double cycles = kBegin;
  for (int l = 0; l < tiled_of(network); ++l) cycles += cycles_of(network, l, shape);
  cycles += kHop * (depth_of(network) - 1);
  if (tiled_of(network) < depth_of(network)) cycles += kNarrow;
  return cycles / machine.clock_hz * 1e6;
}

std::vector<TilesShape> tiles_shapes(const Network& network, const Machine& machine) {
  struct Estimated {
    TilesShape shape;
    double us;
  };
  std::vector<Estimated> all;
  for (const int group : kGroupRows) {
    if (network.input.rows < kFewestRows || group / 2 >= network.input.rows) continue;
    for (const int chunk : kChunks) {
      for (const bool tall : {false, true}) {
        TilesShape shape{group, 1, chunk, kFewestSlots, kFewestSlots, tall};
        const int members = machine.multiprocessors / groups_of(network.input, shape);
        if (members < 1 || members > kMostMembers) continue;
        shape.members = members;
        // Blocks that have no tile of any layer only wait.
        shape.members = std::min(members, most_tiles(network, shape));
        shape.ahead = std::max(shape.slots, room_ahead(network, shape, machine));
        if (!reason_against(network, shape, machine).empty()) continue;
        const bool known = std::ranges::any_of(
            all, [&](const Estimated& each) { return has_same_tiles(network, each.shape, shape); });
        if (!known) all.push_back({shape, estimate_us(network, shape, machine)});
      }
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Estimated& a, const Estimated& b) { return a.us < b.us; });
  // Each stage has code of its own, and takes its time to compile.
  std::erase_if(all, [&, most = all.empty() ? 0 : stages_of(network, all.front().shape)](
                         const Estimated& each) { return stages_of(network, each.shape) > most; });
  all.resize(std::min(all.size(), kMostShapes));
  std::vector<TilesShape> shapes;
  for (const Estimated& each : all) shapes.push_back(each.shape);
  return shapes;
}

LaunchShape launch_shape(const Network& network, const TilesShape& shape) {
  LaunchShape launch;
  launch.blocks = std::int64_t{groups_of(network.input, shape)} * shape.members;
  launch.threads = kTilesThreads;
  launch.shared_bytes = sizeof(float) * static_cast<std::size_t>(layout_of(network, shape).shared);
  launch.cooperative = network.layers.size() > 1;  // blocks wait for each other between layers
  return launch;
}

std::size_t state_bytes(const Network& network, const TilesShape& shape) {
  const long long elements =
      set_at(network.input, network.layers.data(), depth_of(network), shape, 2);
  return sizeof(unsigned) * static_cast<std::size_t>(elements);
}

}  // namespace ai::kernels::chain
