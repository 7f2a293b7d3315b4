#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "ai/program.hpp"
#include "runs_support.hpp"

namespace ai::test {
namespace {

TEST_CASE("a temporary is written only where another than the next plan reads this value of it") {
  struct Case {
    const char* what;
    void (*after)(Net&, const Tensor& t);
    Keeps keeps;
  };
  const Case cases[] = {
      {"nobody else", [](Net&, const Tensor&) {}, {false, true}},
      {"a step", [](Net& n, const Tensor& t) { n.step({t}, {n.make(1, 1)}); }, {true, true}},
      {"a step reads one element",
       [](Net& n, const Tensor& t) {
         n.step({make_tensor_2d(static_cast<float*>(t.data) + 7, {1, 1}, DType::F32, Device::CPU)},
                {n.make(1, 1)});
       },
       {true, true}},
      {"a copy",
       [](Net& n, const Tensor& t) { REQUIRE(n.program.copy_out(t, n.make(2, 4)).ok()); },
       {true, true}},
      {"a plan that writes it anew comes first",
       [](Net& n, const Tensor& t) {
         n.add(n.layer(n.make(2, 4), t));
         n.step({t}, {n.make(1, 1)});
       },
       {false, true}},
      {"a copy that writes it anew comes first",
       [](Net& n, const Tensor& t) {
         REQUIRE(n.program.copy_in(n.make(2, 4), t).ok());
         n.step({t}, {n.make(1, 1)});
       },
       {false, true}},
      {"a step that may write it comes first",
       [](Net& n, const Tensor& t) {
         n.step({}, {t});
         n.step({t}, {n.make(1, 1)});
       },
       {true, true}},
      {"a plan that writes a part of it comes first",
       [](Net& n, const Tensor& t) {
         n.add(n.layer(n.make(1, 4), make_tensor_2d(t.data, {1, 4}, DType::F32, Device::CPU)));
         n.step({t}, {n.make(1, 1)});
       },
       {true, true}},
      {"a plan reads it while it writes it anew (C is Y)",
       [](Net& n, const Tensor& t) {
         GemmForward call = n.layer(n.make(2, 4), t);
         call.C = t;
         call.attrs.beta = 1;
         n.add(call);
       },
       {true, true}},
      {"a gradient is added to it",
       [](Net& n, const Tensor& t) {
         GemmBackward call;
         call.A = n.make(3, 2);
         call.B = n.make(2, 4);
         call.gY = n.make(3, 4);
         call.gB = Gradient(t, GradMode::Accumulate);
         n.add(call);
       },
       {true, true}},
  };
  for (const Case& each : cases) {
    CAPTURE(each.what);
    Net net;
    const Tensor t = net.temporary(2, 4);
    net.add(net.layer(net.make(2, 4), t));
    net.add(net.layer(t, net.make(2, 4)));
    each.after(net, t);
    REQUIRE(net.runs() == std::vector<Items>{{0, 1}});
    CHECK(net.keeps() == std::vector<Keeps>{each.keeps});
  }
}

TEST_CASE("a last Y in a temporary is written whether or not somebody reads it") {
  for (const bool is_read : {false, true}) {
    Net net;
    const Tensor last = net.temporary(2, 4);
    const Tensor link = net.temporary(2, 4);
    net.add(net.layer(net.make(2, 4), link));
    net.add(net.layer(link, last));
    if (is_read) net.step({last}, {net.make(1, 1)});
    CHECK(net.keeps() == std::vector<Keeps>{{false, true}});
  }
}

/// The program that is measured for one mode, `copies` times; layers 4-4-4, as bench makes it.
struct Steps : Net {
  Tensor x = make(2, 4), target = make(2, 4);
  std::vector<Tensor> w = {make(4, 4), make(4, 4), make(4, 4)};
  std::vector<Tensor> b = {make(1, 4), make(1, 4), make(1, 4)};
  std::vector<Tensor> gw = {make(4, 4), make(4, 4), make(4, 4)};
  std::vector<Tensor> gb = {make(1, 4), make(1, 4), make(1, 4)};
  std::vector<Tensor> y, z, gy;

  Steps(bool trains, bool on_chip, int copies) {
    for (int l = 0; l < 3; ++l) {
      y.push_back(on_chip && l < 2 ? temporary(2, 4) : make(2, 4));
      z.push_back(make(2, 4));
      gy.push_back(make(2, 4));
    }
    for (int copy = 0; copy < copies; ++copy) {
      if (copy > 0) step(trains ? std::vector{y[2], gw[0], gb[0]} : std::vector{y[2]}, {x});
      for (std::size_t l = 0; l < 3; ++l) add_forward(l, trains);
      if (!trains) continue;
      step({y[2], target}, {gy[2]});
      for (std::size_t l = 3; l-- > 0;) add_backward(l);
      std::vector<Tensor> all = w;
      for (const auto* more : {&b, &gw, &gb}) all.insert(all.end(), more->begin(), more->end());
      std::vector<Tensor> parameters = w;
      parameters.insert(parameters.end(), b.begin(), b.end());
      step(all, parameters);
    }
  }
  void add_forward(std::size_t l, bool trains) {
    GemmForward call;
    call.A = l > 0 ? y[l - 1] : x;
    call.B = w[l];
    call.bias = b[l];
    call.Y = y[l];
    call.attrs.act = ActKind::ReLU;
    if (trains) call.Z = z[l];
    add(call);
  }
  void add_backward(std::size_t l) {
    GemmBackward call;
    call.A = l > 0 ? y[l - 1] : x;
    call.B = w[l];
    call.gY = gy[l];
    call.Z = z[l];
    call.attrs.act = ActKind::ReLU;
    if (l > 0) call.gA = Gradient(gy[l - 1]);
    call.gB = Gradient(gw[l]);
    call.gBias = Gradient(gb[l]);
    add(call);
  }
};

TEST_CASE("of a train step the forward pass is a run, the data gradients are none") {
  Steps net(true, false, 1);
  CHECK(net.runs() == std::vector<Items>{{0, 1, 2}});
  CHECK(Steps(true, true, 1).keeps() == std::vector<Keeps>{{true, true, true}});  // backward reads
}

TEST_CASE("32 copies of a step with barriers have 32 runs") {
  for (const bool trains : {false, true}) {
    for (const bool on_chip : {false, true}) {
      CAPTURE(trains);
      CAPTURE(on_chip);
      const Steps net(trains, on_chip, 32);
      const std::size_t length = trains ? 9 : 4;
      std::vector<Items> runs;
      for (std::size_t i = 0; i < 32; ++i) {
        runs.push_back({i * length, i * length + 1, i * length + 2});
      }
      CHECK(net.runs() == runs);
      const bool keeps = trains || !on_chip;
      CHECK(net.keeps() == std::vector<Keeps>(32, {keeps, keeps, true}));
    }
  }
}

}  // namespace
}  // namespace ai::test
