#include <doctest/doctest.h>

#include <vector>

#include "ai/program.hpp"
#include "runs_support.hpp"

namespace ai::test {
namespace {

TEST_CASE("items between two plans, over which the later one moves") {
  struct Case {
    const char* what;
    void (*between)(Chain&);  // stands in front of the last layer
    std::vector<Items> runs;
  };
  const std::vector<Items> whole = {{0, 1, 3}};
  const std::vector<Items> cut = {{0, 1}};
  const Case cases[] = {
      {"a step elsewhere", [](Chain& c) { c.step({c.other}, {c.make(2, 2)}); }, whole},
      {"a step that reads the last Y", [](Chain& c) { c.step({c.y[1]}, {c.other}); }, whole},
      {"a step that reads the weights", [](Chain& c) { c.step({c.layers[2].B}, {c.other}); },
       whole},
      {"a step that writes x", [](Chain& c) { c.step({}, {c.x}); }, whole},
      {"a step that writes earlier weights", [](Chain& c) { c.step({}, {c.layers[1].B}); }, whole},
      {"a step that writes the weights", [](Chain& c) { c.step({}, {c.layers[2].B}); }, cut},
      {"a step that writes the link", [](Chain& c) { c.step({}, {c.y[1]}); }, cut},
      {"a step that writes an element of the link",
       [](Chain& c) {
         c.step({}, {make_tensor_2d(static_cast<float*>(c.y[1].data) + 7, {1, 1}, DType::F32,
                                    Device::CPU)});
       },
       cut},
      {"a step that reads what is written later", [](Chain& c) { c.step({c.y[2]}, {c.other}); },
       cut},
      {"a step that writes what is written later", [](Chain& c) { c.step({}, {c.y[2]}); }, cut},
      {"a copy elsewhere", [](Chain& c) { REQUIRE(c.program.copy_in(c.make(4, 4), c.other).ok()); },
       whole},
      {"a copy out of the link",
       [](Chain& c) { REQUIRE(c.program.copy_out(c.y[1], c.make(2, 4)).ok()); }, whole},
      {"a copy in of the weights",
       [](Chain& c) { REQUIRE(c.program.copy_in(c.other, c.layers[2].B).ok()); }, cut},
      {"a copy out to where the weights are",
       [](Chain& c) { REQUIRE(c.program.copy_out(c.other, c.layers[2].B).ok()); }, cut},
      {"a copy out of what is written later",
       [](Chain& c) { REQUIRE(c.program.copy_out(c.y[2], c.make(2, 4)).ok()); }, cut},
      {"a plan elsewhere", [](Chain& c) { c.add(c.layer(c.x, c.make(2, 4))); }, whole},
      {"a plan that writes the weights",
       [](Chain& c) { c.add(c.layer(c.make(4, 2), c.layers[2].B)); }, cut},
      {"a plan that writes what is written later",
       [](Chain& c) { c.add(c.layer(c.make(2, 3), c.y[2])); }, cut},
      {"a gradient added to the weights",
       [](Chain& c) {
         GemmBackward call;
         call.A = c.make(2, 4);
         call.B = c.make(4, 4);
         call.gY = c.make(2, 4);
         call.gB = Gradient(c.layers[2].B, GradMode::Accumulate);
         c.add(call);
       },
       cut},
  };
  for (const Case& each : cases) {
    CAPTURE(each.what);
    Chain net;
    net.add(net.layers[0]);
    net.add(net.layers[1]);
    each.between(net);
    net.add(net.layers[2]);
    CHECK(net.runs() == each.runs);
  }
}

TEST_CASE("an item is moved over by every plan that comes later, not by the next one alone") {
  Chain net;
  net.add(net.layers[0]);
  net.step({}, {net.layers[2].B});
  net.add(net.layers[1]);
  net.add(net.layers[2]);
  CHECK(net.runs() == std::vector<Items>{{0, 2}});
}

TEST_CASE("chains beside each other are found however they are mixed") {
  Chain a;
  const Tensor x = a.make(3, 2);
  const Tensor y0 = a.make(3, 5);
  const GemmForward first = a.layer(x, y0);
  const GemmForward second = a.layer(y0, a.make(3, 1));
  a.add(a.layers[0]);
  a.add(first);
  a.add(a.layers[1]);
  a.add(second);
  CHECK(a.runs() == std::vector<Items>{{0, 2}, {1, 3}});
}

TEST_CASE("what an earlier run took along is not moved over") {
  Chain net;
  const GemmForward first = net.layer(net.make(2, 3), net.make(2, 3));
  GemmForward second = net.layer(first.Y, net.make(2, 4));
  second.C = net.y[1];  // written between the two, but by a plan that goes to the front of both
  second.attrs.beta = 1;
  net.add(net.layers[0]);
  net.add(first);
  net.add(net.layers[1]);
  net.add(second);
  CHECK(net.runs() == std::vector<Items>{{0, 2}, {1, 3}});
}

TEST_CASE("where the network forks the first branch that can goes on, and Y is written") {
  Net net;
  const Tensor x = net.make(2, 4);
  const Tensor trunk = net.temporary(2, 4);
  const Tensor head = net.temporary(2, 3);
  net.add(net.layer(x, trunk));
  net.add(net.layer(trunk, head));
  net.add(net.layer(trunk, net.make(2, 5)));
  net.add(net.layer(head, net.make(2, 1)));
  CHECK(net.runs() == std::vector<Items>{{0, 1, 3}});
  CHECK(net.keeps() == std::vector<Keeps>{{true, false, true}});

  Net spoilt;  // the first branch may not follow
  const Tensor y = spoilt.make(2, 4);
  spoilt.add(spoilt.layer(spoilt.make(2, 4), y));
  GemmForward square = spoilt.layer(y, spoilt.make(2, 2));
  square.B = y;
  square.attrs.trans_b = true;
  spoilt.add(square);
  spoilt.add(spoilt.layer(y, spoilt.make(2, 4)));
  CHECK(spoilt.runs() == std::vector<Items>{{0, 2}});
}

TEST_CASE("ping-pong over two buffers gives what runs it can") {
  Net net;
  const Tensor even = net.make(2, 4);
  const Tensor odd = net.make(2, 4);
  net.add(net.layer(net.make(2, 4), even));
  for (int i = 0; i < 3; ++i) net.add(net.layer(i % 2 == 0 ? even : odd, i % 2 == 0 ? odd : even));
  CHECK(net.runs() == std::vector<Items>{{0, 1}});
}

}  // namespace
}  // namespace ai::test
