#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "chain_support.hpp"

using namespace ai::kernels::chain;
using chain_test::hopper;

namespace {

/// Whether every weight of a layer is held by exactly one thread of one block, as the kernel
/// counts: thread (lane, group) of block `rank`.
bool covers(const Layer& layer, const Shape& shape) {
  const Share share = share_of(layer, shape);
  const int run = run_of(shape);
  std::vector<int> held(static_cast<std::size_t>(layer.k) * static_cast<std::size_t>(layer.n));
  for (int rank = 0; rank < shape.cluster; ++rank) {
    for (int thread = 0; thread < shape.threads; ++thread) {
      const int lane = thread % share.lanes;
      const int group = thread / share.lanes;
      if (group >= share.groups) continue;
      for (int j = 0; j < share.per_thread; ++j) {
        const int own = lane + j * share.lanes;
        const int column = rank * share.columns + own;
        if (own >= share.columns || column >= layer.n) continue;
        for (int i = 0; i < share.terms; ++i) {
          const int term = (i / run) * share.groups * run + i % run + group * run;
          if (term >= share.padded_k) return false;
          if (term < layer.k) held[static_cast<std::size_t>(term * layer.n + column)] += 1;
        }
      }
    }
  }
  return std::all_of(held.begin(), held.end(), [](int count) { return count == 1; });
}

}  // namespace

TEST_CASE("a shape shares out every weight once, whatever the sizes") {
  for (const int slab : {1, 2, 4, 8}) {
    for (const int cluster : {1, 2, 16}) {
      for (const int threads : {32, 96, 512}) {
        for (const int columns : {1, 2}) {
          const Shape shape{slab, cluster, threads, columns, false};
          for (const int k : {1, 3, 16, 235}) {
            for (const int n : {1, 5, 33, 97, 600}) {
              Layer layer;
              layer.k = k;
              layer.n = n;
              CAPTURE(chain_test::text_of(shape));
              CAPTURE(k);
              CAPTURE(n);
              CHECK(covers(layer, shape));
              const Share share = share_of(layer, shape);
              // Lanes of a warp that share columns add up in powers of two.
              CHECK((share.lanes % kWarp == 0 || kWarp % share.lanes == 0));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("areas of shared memory follow one another, aligned for what lies in them") {
  const Network network = chain_test::every_feature(9);
  const int depth = static_cast<int>(network.layers.size());
  for (const Shape& shape :
       {Shape{1, 1, 64, 1, false}, Shape{2, 4, 96, 1, true}, Shape{8, 16, 512, 2, true}}) {
    CAPTURE(chain_test::text_of(shape));
    const Layout layout = layout_of(network.layers.data(), depth, shape);
    CHECK(layout.parts_at == layout.inputs);
    CHECK(layout.parts_at % 4 == 0);  // 16 bytes
    CHECK(layout.staged_at >= layout.parts_at + 2 * layout.parts);
    CHECK(layout.staged_at % 4 == 0);
    CHECK(layout.biases_at == layout.staged_at + layout.staged);
    CHECK(layout.barriers_at >= layout.biases_at + layout.biases);
    CHECK(layout.barriers_at % 2 == 0);  // 8 bytes
    CHECK(layout.shared == layout.barriers_at + 2 * depth);
    for (int l = 0; l < depth; ++l) {
      CHECK(layout_of(network.layers.data(), l, shape).inputs % 4 == 0);
    }
  }
}

TEST_CASE("shapes stay within the limits and stand in the order of the estimate") {
  const Network jet = chain_test::network({16, 64, 32, 32, 5}, ai::ActKind::ReLU, 64);
  for (const Machine& machine : {hopper(), chain_test::ampere()}) {
    const std::vector<Shape> shapes = shapes_for(jet, machine, 1000);
    REQUIRE(shapes.size() > 1);
    std::set<std::string> texts;
    double last = 0;
    for (const Shape& shape : shapes) {
      CHECK(texts.insert(chain_test::text_of(shape)).second);
      CHECK(reason_against(jet, shape, machine.limits) == "");
      CHECK(shape.cluster <= machine.limits.cluster);
      const double estimate = estimate_us(jet, shape, machine);
      CHECK(estimate >= last);
      last = estimate;
    }
    const std::vector<Shape> few = shapes_for(jet, machine, 2);
    REQUIRE(few.size() == 2);
    CHECK(chain_test::text_of(few[1]) == chain_test::text_of(shapes[1]));
  }
  CHECK(shapes_for(jet, hopper(), 0).empty());
}

TEST_CASE("what does not fit is told, and has no shape") {
  const Network ffn = chain_test::network({4096, 11008, 4096}, ai::ActKind::GELUTanh, 1);
  CHECK(shapes_for(ffn, hopper(), 8).empty());
  const Network policy = chain_test::network({64, 256, 256, 8}, ai::ActKind::ReLU, 1);
  const Limits limits = hopper().limits;
  // 64 * 256 / 512 + 256 * 256 / 512 + 256 * 8 / 512 weights a thread, 1 input and 3 biases,
  // and 40.
  CHECK(reason_against(policy, Shape{1, 1, 512, 1, false}, Limits{limits.shared_bytes, 218, 16}) ==
        "needs 219 registers of 218");
  CHECK(reason_against(policy, Shape{1, 1, 512, 1, false}, Limits{limits.shared_bytes, 219, 16}) ==
        "");
  CHECK(reason_against(policy, Shape{1, 16, 64, 1, false}, Limits{limits.shared_bytes, 255, 8}) ==
        "needs 16 blocks a cluster of 8");
  const Layout layout = layout_of(policy.layers.data(), 3, {1, 1, 512, 1, false});
  const int bytes = 4 * layout.shared;
  CHECK(reason_against(policy, Shape{1, 1, 512, 1, false}, Limits{bytes, 255, 1}) == "");
  CHECK(reason_against(policy, Shape{1, 1, 512, 1, false}, Limits{bytes - 1, 255, 1}) ==
        "needs " + std::to_string(bytes) + " bytes of shared memory of " +
            std::to_string(bytes - 1));
}

TEST_CASE("rows are not spread over slabs that would be half empty") {
  const Network jet = chain_test::network({16, 64, 32, 32, 5}, ai::ActKind::ReLU, 3);
  for (const Shape& shape : shapes_for(jet, hopper(), 1000)) CHECK(shape.slab <= 4);
}

TEST_CASE("weights are requested as far ahead as the window reaches, and one layer at least") {
  const Network network = chain_test::network({64, 64, 128, 64, 256, 32}, ai::ActKind::ReLU, 1);
  const Layer* const layers = network.layers.data();
  constexpr int kDepth = 5;
  for (const int window : {0, 1, 16, 40, 64, 100, 1000}) {
    const Shape shape{1, 4, 128, 1, false, window};
    CAPTURE(window);
    int before = requested(layers, kDepth, shape, 0);
    CHECK(before >= 1);
    for (int done = 0; done < kDepth; ++done) {
      const int end = requested(layers, kDepth, shape, done);
      CHECK(end > done);  // what comes next is on its way
      CHECK(end >= before);
      CHECK(end <= kDepth);
      int held = 0;
      for (int l = done; l < end; ++l) held += weights_of(layers[l], shape);
      CHECK(held <= most_held(layers, kDepth, shape));
      if (window > 0 && end > done + 1) CHECK(held <= window);
      if (window > 0 && end < kDepth) CHECK(held + weights_of(layers[end], shape) > window);
      before = end;
    }
    CHECK(requested(layers, kDepth, shape, kDepth) == kDepth);
  }
  // 8, 16, 16, 32 and 16 of a thread.
  CHECK(requested(layers, kDepth, {1, 4, 128, 1, false, 40}, 0) == 3);
  CHECK(most_held(layers, kDepth, {1, 4, 128, 1, false, 0}) == 88);
  CHECK(most_held(layers, kDepth, {1, 4, 128, 1, false, 40}) == 40);
  CHECK(most_held(layers, kDepth, {1, 4, 128, 1, false, 1}) == 32);
}

TEST_CASE("a network whose weights are too many for all registers has shapes with a window") {
  const std::vector<int> widths(11, 500);
  const Network network = chain_test::network(widths, ai::ActKind::ReLU, 2);
  const std::vector<Shape> shapes = shapes_for(network, chain_test::hopper(), 8);
  REQUIRE(!shapes.empty());
  for (const Shape& shape : shapes) {
    CHECK(shape.window > 0);
    CHECK(reason_against(network, shape, chain_test::hopper()).empty());
    Shape whole = shape;
    whole.window = 0;
    CHECK_FALSE(reason_against(network, whole, chain_test::hopper()).empty());
  }
}
