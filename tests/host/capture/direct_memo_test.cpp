// The direct path over the fake runtime: how long the graphs of repeated calls live.
#include "capture/direct_memo.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "direct_support.hpp"

namespace ai::test {
namespace {

using detail::DirectReplay;

constexpr int kGraphFrom = DirectPath::kGraphFrom;
constexpr std::size_t kMost = detail::RecentCalls::kMost;

TEST_CASE("problems that are planned meanwhile cost a call neither its count nor its graph") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  std::vector<std::unique_ptr<Layer>> others;
  const auto plan_another = [&] {
    others.push_back(
        std::make_unique<Layer>(f.fake, 1, 1, static_cast<std::int64_t>(others.size()) + 1));
    CHECK(f.path.run(others.back()->call, f.stream).ok());
  };
  for (int i = 0; i < kGraphFrom; ++i) {
    repeat(f, layer, 1, f.stream);
    if (i < 2) plan_another();
  }
  CHECK(f.path->info().graphs == 1);
  plan_another();
  f.fake.forget_calls();
  repeat(f, layer, 1, f.stream);
  CHECK(f.fake.count("graph_launch") == 1);
  CHECK(f.path->info().graphs == 1);
  CHECK(f.settle() == "");
}

TEST_CASE("the last 32 calls of a thread have graphs, and another one takes the oldest's place") {
  Fixture f;
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < kMost + 1; ++i) layers.emplace_back(f.fake, 2, 3, 4);
  const auto in_turn = [&](std::size_t count) {
    for (int i = 0; i < kGraphFrom; ++i) {
      for (std::size_t j = 0; j < count; ++j) repeat(f, layers[j], 1, f.stream);
    }
  };
  in_turn(kMost);
  CHECK(f.path->info().graphs == kMost);
  repeat(f, layers[0], 1, f.stream);
  repeat(f, layers.back(), 1, f.stream);  // in the place of layers[1]
  CHECK(f.path->info().graphs == kMost - 1);
  f.fake.forget_calls();
  for (std::size_t i = 0; i < kMost; ++i) {
    if (i != 1) repeat(f, layers[i], 1, f.stream);
  }
  CHECK(f.fake.count("graph_launch") == static_cast<int>(kMost) - 1);
  // One that is refused takes nobody's place.
  repeat(f, layers.back(), 1, f.stream);
  Layer refused = layers[1];
  refused.call.A.data = refused.call.Y.data;
  CHECK(f.path.run(refused.call, f.stream).code() == StatusCode::Overlap);
  CHECK(f.path->info().graphs == kMost - 1);
  // One more in turn, and none stays for long enough.
  f.path->clear();
  in_turn(kMost + 1);
  CHECK(f.path->info().graphs == 0);
  CHECK(f.settle() == "");
}

TEST_CASE("clearing the cache, limiting it and keeping nothing destroy the graphs") {
  for (int way = 0; way < 3; ++way) {
    CAPTURE(way);
    Fixture f;
    f.path.scratch_only = way == 0;
    const Layer layer(f.fake, 2, 3, 4);
    repeat(f, layer, kGraphFrom + 1, f.stream);
    CHECK(f.path->info().graphs == 1);
    f.fake.forget_calls();
    if (way == 0) f.path->clear();
    if (way == 1) f.path->set_limit(5);
    if (way == 2) f.path->set_limit(0);
    CHECK(f.path->info().graphs == 0);
    CHECK(f.fake.count("graph_exec_destroy") == 1);
    CHECK(f.fake.count("stream_synchronize") == 0);
    repeat(f, layer, 2 * kGraphFrom, f.stream);
    CHECK(f.path->info().graphs == (way == 2 ? 0 : 1));
    CHECK(f.settle() == "");
  }
}

TEST_CASE("B9: scratch of a graph that is destroyed in flight is freed behind its last launch") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  repeat(f, layer, kGraphFrom - 1, f.stream);
  f.path->clear();  // and with it the stream's scratch
  CHECK(f.fake.pool_bytes() == 0);
  repeat(f, layer, kGraphFrom - 1, f.stream);
  const std::size_t of_stream = f.fake.pool_bytes();
  repeat(f, layer, 1, f.stream);
  const std::size_t all = f.fake.pool_bytes();
  CHECK(all > of_stream);
  f.fake.forget_calls();
  f.fake.hold();
  repeat(f, layer, 3, f.stream);
  f.fake.destroy_stream(f.stream);
  Layer::fill(layer.call.Y, -1.0F);
  f.path->set_limit(1024);
  CHECK(f.path->info().graphs == 0);
  CHECK(f.fake.count("graph_launch") == 4);
  CHECK(f.fake.count("graph_node_set_enabled") == 2);
  CHECK(layer.y() == -1.0F);  // the last launch was a fence: it computed nothing
  CHECK(f.fake.count("stream_synchronize") == 0);
  CHECK(f.fake.pool_bytes() == all);
  f.fake.complete();
  CHECK(f.fake.pool_bytes() == of_stream);
  CHECK(f.settle() == "");
}

TEST_CASE("a graph that was never launched, or has no scratch, needs no fence") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  repeat(f, layer, kGraphFrom, f.stream);
  f.fake.forget_calls();
  f.path->clear();
  CHECK(f.fake.count("graph_launch") == 0);
  CHECK(f.fake.count("graph_node_set_enabled") == 0);
  CHECK(f.settle() == "");
}

TEST_CASE(
    "a thread that ends takes its graphs along, and one that was told to clear only its own") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  const Layer other(f.fake, 2, 3, 4);
  repeat(f, layer, kGraphFrom, f.stream);
  std::thread([&] {
    repeat(f, layer, kGraphFrom, f.stream);
    repeat(f, other, kGraphFrom, f.stream);
    CHECK(f.path->info().graphs == 3);
  }).join();
  CHECK(f.path->info().graphs == 1);
  CHECK(f.fake.count("graph_exec_destroy") == 2);
  std::thread([&] { f.path->clear(); }).join();
  CHECK(f.path->info().graphs == 1);
  repeat(f, other, 1, f.stream);  // any call of the thread
  CHECK(f.path->info().graphs == 0);
  CHECK(f.settle() == "");
}

TEST_CASE("calls that are made while a thread's own objects go are done, step by step") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  struct Last {
    ~Last() {
      for (int i = 0; i < 2 * kGraphFrom; ++i)
        statuses += f->path.run(*call, f->stream).ok() ? 1 : 0;
      graphs = f->path->info().graphs;
    }
    Fixture* f = nullptr;
    const GemmForward* call = nullptr;
    int& statuses;
    std::size_t& graphs;
  };
  int good = 0;
  std::size_t graphs = 1;
  std::thread([&] {
    INFO("doctest's own objects of the thread go last");
    thread_local std::unique_ptr<Last> last;  // made before the thread's first call: goes after
    last.reset(new Last{&f, &layer.call, good, graphs});
    repeat(f, layer, kGraphFrom, f.stream);
  }).join();
  CHECK(good == 2 * kGraphFrom);
  CHECK(graphs == 0);
  CHECK(f.settle() == "");
}

TEST_CASE("of all threads there are at most 256 graphs at once, and then calls go on without") {
  Fixture f;
  std::vector<std::unique_ptr<Layer>> layers;
  for (int i = 0; i < 24; ++i) layers.push_back(std::make_unique<Layer>(f.fake, 2, 3, 4));
  std::size_t most = 0;
  // Each thread makes as many as it can hold, one thread inside the other so that all are alive.
  const auto nest = [&](const auto& self, int depth) -> void {
    for (const auto& layer : layers) repeat(f, *layer, kGraphFrom, f.stream);
    most = std::max(most, f.path->info().graphs);
    REQUIRE(f.path->info().graphs <= DirectReplay::kDefaultLimit);
    if (depth > 0) std::thread([&] { self(self, depth - 1); }).join();
  };
  std::thread([&] {
    nest(nest, 19);
    CHECK(f.path->info().graphs == layers.size());
  }).join();
  CHECK(most == DirectReplay::kDefaultLimit);
  CHECK(f.path->info().graphs == 0);
  for (const auto& layer : layers) repeat(f, *layer, kGraphFrom, f.stream);
  CHECK(f.path->info().graphs > 0);
  CHECK(f.settle() == "");
}

TEST_CASE("a call that found no room for its graph takes it when there is") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  std::vector<std::unique_ptr<Layer>> layers;
  for (int i = 0; i < 24; ++i) layers.push_back(std::make_unique<Layer>(f.fake, 2, 3, 4));
  std::promise<void> is_full;
  std::promise<void> may_end;
  const auto fill = [&](const auto& self) -> void {
    for (const auto& other : layers) repeat(f, *other, kGraphFrom, f.stream);
    if (f.path->info().graphs < DirectReplay::kDefaultLimit) {
      std::thread([&] { self(self); }).join();
    } else {
      is_full.set_value();
      may_end.get_future().wait();
    }
  };
  std::thread threads([&] { fill(fill); });
  is_full.get_future().wait();
  repeat(f, layer, 2 * kGraphFrom, f.stream);
  CHECK(f.path->info().graphs == DirectReplay::kDefaultLimit);
  may_end.set_value();
  threads.join();
  CHECK(f.path->info().graphs == 0);
  repeat(f, layer, 1, f.stream);
  CHECK(f.path->info().graphs == 1);
  CHECK(f.settle() == "");
}

TEST_CASE("a call that loses the last place to another thread takes one later") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  repeat(f, layer, kGraphFrom - 1, f.stream);
  f.fake.before_call = [](const std::string& function) {
    if (function == "thread_exchange_stream_capture_mode") DirectReplay::set_limit(0);
  };
  repeat(f, layer, 1, f.stream);  // has seen room, and then there is none
  f.fake.before_call = {};
  CHECK(DirectReplay::limit() == 0);
  CHECK(f.path->info().graphs == 0);
  f.path->set_graph_limit(DirectReplay::kDefaultLimit);
  repeat(f, layer, 1, f.stream);
  CHECK(f.path->info().graphs == 1);
  CHECK(f.settle() == "");
}

TEST_CASE("a limit of graphs holds from the next call on, and none means none") {
  Fixture f;
  const Layer one(f.fake, 2, 3, 4);
  const Layer two(f.fake, 2, 3, 4);
  f.path->set_graph_limit(1);
  CHECK(f.path->info().graph_limit == 1);
  repeat(f, one, kGraphFrom, f.stream);
  repeat(f, two, 2 * kGraphFrom, f.stream);
  CHECK(f.path->info().graphs == 1);
  f.path->set_graph_limit(0);
  CHECK(f.path->info().graphs == 0);
  repeat(f, one, 3 * kGraphFrom, f.stream);
  CHECK(f.path->info().graphs == 0);
  f.path->set_graph_limit(DirectReplay::kDefaultLimit);
  repeat(f, one, 1, f.stream);
  CHECK(f.path->info().graphs == 1);
  CHECK(f.settle() == "");
}

}  // namespace
}  // namespace ai::test
