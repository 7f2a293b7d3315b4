#include <algorithm>
#include <cstdint>
#include <limits>

#include "chain_recipe.hpp"
#include "core/text.hpp"
#include "kernels/chain_rows.hpp"

namespace ai::kernels::chain {
namespace {

constexpr int kRowCounts[] = {32, 16, 8, 1};
constexpr int kWarpCounts[] = {1, 2, 4, 8};
constexpr int kMostTerms = 128;  // each sum is one chain in f32
constexpr int kMostWarps = 8;  // the registers of as many threads may be all that a thread can have
constexpr int kFewestRows = 512;
constexpr int kFewestLines = 32;  // where a warp has one row
constexpr std::size_t kMostShapes = 6;

// Cycles, fitted to what an H200 took for five layers of 64 columns and 4096 or 16384 rows, and,
// where a warp has one row, for nine of 20 columns and 256 rows. A launch and the first loads; what
// follows one another in a layer; a sum; an access of 16 bytes a lane to shared memory, that much
// of which sums do not hide; an activation with exponentials; waiting for weights that another
// layer's had to make room for (not fitted).
constexpr double kBegin = 4000;
constexpr double kBeginLines = 2900;  // where a warp has one row
constexpr double kLayer = 450;
constexpr double kSum = 1.27;
constexpr double kAccess = 0.8;
constexpr double kResult = 4;
constexpr double kDearResult = 30;
constexpr double kStreamed = 400;
constexpr double kLine = 100;
constexpr double kTerm = 2.5;
constexpr double kFetch = 32;  // bytes a cycle
constexpr double kCopy = 260;  // of 16 bytes, of a thread that has them to request before it begins
constexpr int kSchedulers = 4;
constexpr int kThreadsAtOnce = 2048;
constexpr int kRegisters = 65536;
constexpr int kSharedOfBlock = 1024;  // bytes that every block takes beside its own

RowsLayout layout_of(const Network& network, const RowsShape& shape) {
  return rows_layout_of(network.layers.data(), static_cast<int>(network.layers.size()), shape);
}

/// Registers of a thread, about: sums, and what is read ahead.
int registers_of(const Network& network, const RowsShape& shape) {
  int most = 0;
  for (const Layer& layer : network.layers) {
    const Tiling tiling = tiling_of(layer, shape);
    if (shape.rows == 1) {
      most = std::max(most, tiling.terms * tiling.vectors);
      continue;
    }
    most = std::max(most, 4 * tiling.rows * tiling.vectors + 8 * (tiling.rows + tiling.vectors));
  }
  return std::min(255, most + 32);
}

int blocks_of(const Network& network, const RowsShape& shape) {
  const int rows = shape.rows * shape.warps;
  return (network.input.rows - 1) / rows + 1;
}

double cycles_of(const Layer& layer, const RowsShape& shape, int warps) {
  const Tiling tiling = tiling_of(layer, shape);
  if (shape.rows == 1) {
    const double dear = layer.act > ActKind::LeakyReLU ? kDearResult * tiling.vectors : 0;
    return kLine + dear + kTerm * tiling.terms * (1 + tiling.vectors) +
           1.0 * warps * tiling.terms * tiling.vectors;
  }
  const double results = 4.0 * tiling.rows * tiling.vectors;
  const double accesses = tiling.terms * (tiling.rows / 4.0 + tiling.vectors);
  const double in_turn = (warps + kSchedulers - 1) / kSchedulers;  // warps of one scheduler
  const bool is_dear = layer.act > ActKind::LeakyReLU;
  return kLayer + (shape.streamed ? kStreamed : 0) + kSum * in_turn * results * tiling.terms +
         kAccess * accesses * warps + in_turn * results * (kResult + (is_dear ? kDearResult : 0));
}

}  // namespace

std::string name_of(const RowsShape& shape) {
  return text("rows/", shape.rows, "x", shape.warps, shape.streamed ? "/streamed" : "");
}

std::string recipe_of(const RowsShape& shape) {
  return text("rows ", shape.rows, " ", shape.warps, " ", shape.streamed ? 1 : 0);
}

std::optional<RowsShape> parse_rows_recipe(std::string_view recipe) {
  constexpr std::string_view kFamily = "rows";
  if (!recipe.starts_with(kFamily)) return std::nullopt;
  std::string_view rest = recipe.substr(kFamily.size());
  RowsShape shape;
  int streamed = 0;
  for (int* number : {&shape.rows, &shape.warps, &streamed}) {
    if (!take_number(rest, *number)) return std::nullopt;
  }
  shape.streamed = streamed == 1;
  const bool can_be = std::ranges::count(kRowCounts, shape.rows) == 1 && shape.warps >= 1 &&
                      shape.warps <= kMostWarps && !(shape.rows == 1 && shape.streamed);
  // What follows, and whatever else could be written in several ways.
  if (!can_be || recipe_of(shape) != recipe) return std::nullopt;
  return shape;
}

std::string initializer_of(const RowsShape& shape) {
  return text("{", shape.rows, ", ", shape.warps, ", ", shape.streamed ? "true" : "false", "}");
}

std::string reason_against(const Network& network, const RowsShape& shape, const Machine& machine) {
  if (shape.rows == 1 && shape.streamed) return "one row a warp needs the weights of all layers";
  for (const Layer& layer : network.layers) {
    if (layer.n > most_columns(shape)) {
      return text("a layer has ", layer.n, " columns, more than ", most_columns(shape));
    }
    if (layer.k > kMostTerms) {
      return text("a layer has ", layer.k, " terms, more than ", kMostTerms);
    }
    const std::int64_t rows = std::int64_t{blocks_of(network, shape)} * shape.rows * shape.warps;
    const int farthest = std::max({layer.y_m, layer.z_m, layer.bias_m});
    if (rows * farthest > std::numeric_limits<int>::max()) {
      return "rows past the last one are 2^31 elements away";
    }
  }
  const auto bytes = 4 * std::int64_t{layout_of(network, shape).shared};
  if (bytes > machine.limits.shared_bytes) {
    return text("needs ", bytes, " bytes of shared memory of ", machine.limits.shared_bytes);
  }
  return {};
}

double estimate_us(const Network& network, const RowsShape& shape, const Machine& machine) {
  const RowsLayout layout = layout_of(network, shape);
  const int threads = shape.warps * kWarp;
  const int room = std::max(
      1,
      std::min({machine.limits.shared_bytes / (4 * layout.shared + kSharedOfBlock),
                kThreadsAtOnce / threads, kRegisters / (threads * registers_of(network, shape))}));
  const int side_by_side = std::max(1, machine.multiprocessors);
  const int blocks = blocks_of(network, shape);
  const int held = std::min((blocks + side_by_side - 1) / side_by_side, room);
  const int waves = (blocks + side_by_side * held - 1) / (side_by_side * held);
  // Later weights are fetched while layers are computed.
  const Layer& first = network.layers.front();
  double requests = 0;
  double bytes = 4.0 * held * first.k * (first.n + shape.rows * shape.warps);
  if (shape.rows == 1) {
    for (const Layer& layer : network.layers) bytes += 4.0 * held * layer.k * layer.n;
    requests = bytes / 16 / held / threads;
  }
  double wave = bytes / kFetch + kCopy * requests;
  for (const Layer& layer : network.layers) wave += cycles_of(layer, shape, held * shape.warps);
  const double begin = shape.rows == 1 ? kBeginLines : kBegin;
  return (begin + waves * wave) / machine.clock_hz * 1e6;
}

std::vector<RowsShape> rows_shapes(const Network& network, const Machine& machine) {
  struct Estimated {
    RowsShape shape;
    double us;
  };
  std::vector<Estimated> all;
  for (const int rows : kRowCounts) {
    if (network.input.rows < (rows == 1 ? kFewestLines : kFewestRows)) continue;
    for (const int warps : kWarpCounts) {
      RowsShape shape{rows, warps, false};
      if (!reason_against(network, shape, machine).empty()) shape.streamed = true;
      if (!reason_against(network, shape, machine).empty()) continue;
      all.push_back({shape, estimate_us(network, shape, machine)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Estimated& a, const Estimated& b) { return a.us < b.us; });
  all.resize(std::min(all.size(), kMostShapes));
  std::vector<RowsShape> shapes;
  for (const Estimated& each : all) shapes.push_back(each.shape);
  return shapes;
}

LaunchShape launch_shape(const Network& network, const RowsShape& shape) {
  LaunchShape launch;
  launch.blocks = blocks_of(network, shape);
  launch.threads = shape.warps * kWarp;
  launch.shared_bytes = sizeof(float) * static_cast<std::size_t>(layout_of(network, shape).shared);
  return launch;
}

}  // namespace ai::kernels::chain
