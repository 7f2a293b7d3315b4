#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <vector>

#include "ai/program.hpp"
#include "runs_support.hpp"

namespace ai::test {
namespace {

/// What is done to a chain of three, and the runs that are left.
struct Case {
  const char* what;
  void (*spoil)(Chain&);
  std::vector<Items> runs;
};

void check_all(std::span<const Case> cases) {
  for (const Case& each : cases) {
    CAPTURE(each.what);
    Chain net;
    each.spoil(net);
    net.add_all();
    CHECK(net.runs() == each.runs);
  }
}

TEST_CASE("a chain of three is one run, and what is not in a temporary is written") {
  Chain net;
  net.add_all();
  CHECK(net.runs() == std::vector<Items>{{0, 1, 2}});
  CHECK(net.keeps() == std::vector<Keeps>{{true, true, true}});
}

TEST_CASE("nothing and single plans are no runs") {
  CHECK(Net().runs().empty());
  Chain net;
  net.add(net.layers[0]);
  net.add(net.layers[2]);
  CHECK(net.runs().empty());
}

TEST_CASE("a plan that no other follows is a run where it may be one alone") {
  Chain net;
  net.add(net.layers[0]);
  net.add(net.layers[2]);
  const auto second = [&](const GemmPlan& plan) {
    return plan.forward().Y.data == net.layers[2].Y.data;
  };
  constexpr std::size_t kMost = 10;
  const std::vector<detail::Run> runs = detail::find_runs(net.program.items(), {}, kMost, second);
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].items == Items{1});
  CHECK(runs[0].keeps_y == Keeps{true});
  const auto never = [](const GemmPlan&) { return false; };
  CHECK(detail::find_runs(net.program.items(), never, kMost, second).empty());
}

TEST_CASE("what ties plans of a run to each other beside A") {
  const std::vector<Items> whole = {{0, 1, 2}};
  const Case cases[] = {
      {"Z of each layer",
       [](Chain& c) {
         for (auto& l : c.layers) l.Z = c.make(2, 4);
       },
       whole},
      {"the same weights and bias in all",
       [](Chain& c) {
         const Tensor bias = c.make(1, 4);
         for (auto& l : c.layers) {
           l.B = c.layers[0].B;
           l.bias = bias;
         }
       },
       whole},
      {"C is elsewhere",
       [](Chain& c) {
         c.layers[1].C = c.make(2, 4);
         c.layers[1].attrs.beta = 1;
       },
       whole},
      {"C is its own Y",
       [](Chain& c) {
         c.layers[1].C = c.y[1];
         c.layers[1].attrs.beta = 0.5F;
       },
       whole},
      {"C is the Y that is A",
       [](Chain& c) {
         c.layers[1].C = c.y[0];
         c.layers[1].attrs.beta = 1;
       },
       {{1, 2}}},
      {"C is the Y of the layer before the last one (a skip)",
       [](Chain& c) {
         c.layers[2].C = c.y[0];
         c.layers[2].attrs.beta = 1;
       },
       {{0, 1}}},
      {"C is such a Y, but is not read", [](Chain& c) { c.layers[2].C = c.y[0]; }, whole},
      {"C is the Y of a later layer",
       [](Chain& c) {
         c.layers[0].C = c.y[2];
         c.layers[0].attrs.beta = 1;
       },
       {{0, 1}}},
      {"alpha is 2", [](Chain& c) { c.layers[1].attrs.alpha = 2; }, whole},
      {"alpha is 0: the second layer reads no A",
       [](Chain& c) { c.layers[1].attrs.alpha = 0; },
       {}},
      {"bias is in the Y before",
       [](Chain& c) {
         c.layers[2].bias =
             c.at(static_cast<std::size_t>(static_cast<float*>(c.y[1].data) - c.pool.data()), 1, 4);
       },
       {{0, 1}}},
      {"bias is where an earlier Z is written",
       [](Chain& c) {
         c.layers[0].Z = c.make(2, 4);
         c.layers[2].bias = make_tensor_2d(c.layers[0].Z->data, {1, 4}, DType::F32, Device::CPU);
       },
       {{0, 1}}},
      {"bias is where a later Z is written",
       [](Chain& c) {
         c.layers[2].Z = c.make(2, 4);
         c.layers[0].bias = make_tensor_2d(c.layers[2].Z->data, {1, 4}, DType::F32, Device::CPU);
       },
       {{0, 1}}},
      {"B of the first layer ends with one element of the last Y",
       [](Chain& c) {
         c.layers[2].Y = c.make(2, 4);
         c.layers[0].B = c.at(c.used - 16 - 8 - 15, 4, 4);
       },
       {{0, 1}}},
      {"ping-pong: the last Y is x", [](Chain& c) { c.layers[2].Y = c.x; }, {{0, 1}}},
      {"the last Y begins with the last element of x",
       [](Chain& c) { c.layers[2].Y = c.at(7, 2, 4); },
       {{0, 1}}},
      {"ping-pong: the last Y is the first", [](Chain& c) { c.layers[2].Y = c.y[0]; }, {{0, 1}}},
      {"Z of the last layer is the first Y", [](Chain& c) { c.layers[2].Z = c.y[0]; }, {{0, 1}}},
      {"two Z in one place",
       [](Chain& c) { c.layers[0].Z = c.layers[2].Z = c.make(2, 4); },
       {{0, 1}}},
      {"the last Z meets the first by one element",
       [](Chain& c) {
         c.layers[0].Z = c.make(2, 4);
         c.layers[2].Z = c.at(c.used - 16 - 1, 2, 4);
         c.used += 16;
       },
       {{0, 1}}},
  };
  check_all(cases);
}

TEST_CASE("the columns beside a Y may be written in the same run") {
  Chain net;
  const Tensor wide = net.make(2, 8);
  net.layers[0].Y = net.layers[1].A =
      make_tensor_2d(wide.data, {2, 4}, DType::F32, Device::CPU, 0, 8);
  net.layers[2].Y =
      make_tensor_2d(static_cast<float*>(wide.data) + 4, {2, 4}, DType::F32, Device::CPU, 0, 8);
  net.add_all();
  CHECK(net.runs() == std::vector<Items>{{0, 1, 2}});
}

TEST_CASE("A that is not just the Y before it ends the run") {
  const Case cases[] = {
      {"begins one element later",
       [](Chain& c) {
         const Tensor wide = c.make(2, 8);
         auto* const data = static_cast<float*>(wide.data);
         c.layers[0].Y = make_tensor_2d(data, {2, 4}, DType::F32, Device::CPU, 0, 8);
         c.layers[1].A = make_tensor_2d(data + 1, {2, 4}, DType::F32, Device::CPU, 0, 8);
       },
       {{1, 2}}},
      {"has fewer columns",
       [](Chain& c) {
         c.layers[1].A = make_tensor_2d(c.y[0].data, {2, 3}, DType::F32, Device::CPU, 0, 4);
         c.layers[1].B = c.make(3, 4);
       },
       {{1, 2}}},
      {"has fewer rows",
       [](Chain& c) {
         c.layers[1].A = make_tensor_2d(c.y[0].data, {1, 4}, DType::F32, Device::CPU);
         for (int i : {1, 2}) c.layers[static_cast<std::size_t>(i)].Y.desc.shape = {1, 4};
         c.layers[2].A.desc.shape = {1, 4};
       },
       {{1, 2}}},
      {"has another stride",
       [](Chain& c) {
         const Tensor wide = c.make(2, 8);
         c.layers[0].Y = make_tensor_2d(wide.data, {2, 4}, DType::F32, Device::CPU, 0, 5);
         c.layers[1].A = make_tensor_2d(wide.data, {2, 4}, DType::F32, Device::CPU, 0, 8);
       },
       {{1, 2}}},
      {"is transposed",
       [](Chain& c) {
         const Tensor square = c.make(4, 4);
         c.layers[0] = c.layer(c.make(4, 4), square);
         c.layers[1] = c.layer(square, c.make(4, 4));
         c.layers[1].attrs.trans_a = true;
         c.layers[2] = c.layer(c.layers[1].Y, c.make(4, 4));
       },
       {{1, 2}}},
      {"is transposed in the first layer, where it is no link",
       [](Chain& c) {
         c.layers[0].A = c.make(4, 2);
         c.layers[0].attrs.trans_a = true;
       },
       {{0, 1, 2}}},
      {"has one row, the stride of which means nothing",
       [](Chain& c) {
         for (GemmForward& l : c.layers) {
           l.A.desc.shape = l.Y.desc.shape = {1, 4};
           l.A.desc.stride = {64, 1};
         }
       },
       {{0, 1, 2}}},
      {"and rows are strided alike",
       [](Chain& c) { c.layers[0].Y = c.layers[1].A = c.make(2, 4, 7); },
       {{0, 1, 2}}},
  };
  check_all(cases);
}

TEST_CASE("empty plans are in no run") {
  Net rows;
  const Tensor none = rows.make(0, 4);
  rows.add(rows.layer(rows.make(0, 4), none));
  rows.add(rows.layer(none, rows.make(0, 4)));
  CHECK(rows.runs().empty());

  Net inner;  // K = 0 in the first
  const Tensor y = inner.make(2, 4);
  inner.add(inner.layer(inner.make(2, 0), y));
  inner.add(inner.layer(y, inner.make(2, 4)));
  CHECK(inner.runs().empty());

  Net outer;  // N = 0 in the last
  const Tensor link = outer.make(2, 4);
  outer.add(outer.layer(outer.make(2, 4), link));
  outer.add(outer.layer(link, outer.make(2, 0)));
  CHECK(outer.runs().empty());
}

TEST_CASE("outputs that meet themselves or their own inputs are refused before any run is found") {
  Net net;
  const Tensor y = net.make(2, 4);
  GemmForward call = net.layer(net.make(2, 4), y);
  call.Y.desc.stride = {0, 1};
  CHECK(!plan_forward(call).ok());
  call.Y.desc.stride = {1, 1};
  CHECK(!plan_forward(call).ok());
  call.Y = call.A;  // in place
  CHECK(plan_forward(call).status().code() == StatusCode::Overlap);
}

}  // namespace
}  // namespace ai::test
