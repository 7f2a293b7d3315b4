#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "ai/ai.hpp"
#include "check_case.hpp"
#include "network.hpp"

/// Runs whole networks on some target and holds every layer against the oracle, which reads what
/// that target wrote for the layer before. `Copies` says where the operands live:
/// `upload(network)`, `download(network)`, `place()`, and `copies_first_read_to_first_write(step)`,
/// which gives a user step that work.
namespace support {

enum class Hidden {
  Buffers,      ///< hidden activations and gradients in buffers of the caller's
  Temporaries,  ///< in temporaries of the program, so that nobody sees them
  Observed,     ///< in temporaries, which user steps copy to the caller's buffers
};
struct NetworkRun {
  Hidden hidden = Hidden::Buffers;
  bool is_split = false;  ///< forward and backward in a program each, else all in one
  ai::CaptureOptions options = {};
};

/// A network on its target, captured.
template <typename Copies>
class CapturedNetwork {
 public:
  CapturedNetwork(const NetworkSpec& spec, const NetworkRun& run)
      : now(spec), run_(run), before_(spec) {
    if (run.hidden == Hidden::Temporaries) {
      for (Network* network : {&now, &before_}) {
        network->hides_forward = !run.is_split;
        network->hides_gradients = true;
      }
    }
    check(copies_.upload(now));
    std::vector<ai::Program> programs(run.is_split ? 2 : 1);
    hide_buffers(programs);
    for (std::size_t l = 0; l < now.depth(); ++l) add_forward(programs.front(), l);
    for (std::size_t l = now.depth(); l-- > 0;) add_backward(programs.back(), l);
    for (const ai::Program& program : programs) {
      ai::Result<ai::Executable> executable = ai::capture(program, run.options);
      REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
      executables.push_back(std::move(executable).value());
    }
  }
  CapturedNetwork(const CapturedNetwork&) = delete;
  CapturedNetwork& operator=(const CapturedNetwork&) = delete;

  /// One replay; `afresh`: from poisoned outputs and the first gradients. What it wrote is in
  /// `now`.
  void replay(bool afresh = true) {
    if (afresh) {
      now.restore(before_);
      check(copies_.upload(now));
    }
    for (ai::Executable& executable : executables) check(executable.launch());
    for (ai::Executable& executable : executables) check(executable.wait());
    check(copies_.download(now));
  }

  /// Every layer against the oracle, after one replay afresh.
  void check_layers() {
    const auto at = [](const Buffer& buffer) { return buffer.tensor(); };
    for (std::size_t l = 0; l < now.depth(); ++l) {
      CAPTURE(l);
      const Network::Layer& layer = now.layers[l];
      const oracle::Forward forward = oracle::forward(now.forward(l, at));
      if (layer.z) CHECK(difference("Z", forward.z, *layer.z) == "");
      CHECK(difference("Y", forward.y, layer.y) == "");

      // The oracle adds to the old gradients, which the replay has written over.
      ai::GemmBackward call = now.backward(l, at);
      const ai::GemmBackward old = before_.backward(l, at);
      call.gB = old.gB;
      call.gBias = old.gBias;
      const oracle::Backward backward = oracle::backward(call);
      if (call.gA) CHECK(difference("gA", backward.ga, *now.input_gradient(l)) == "");
      CHECK(difference("gB", backward.gb, layer.gb) == "");
      if (layer.gbias) CHECK(difference("gBias", backward.gbias, *layer.gbias) == "");
    }
    check_untouched();
  }
  /// Nothing but outputs has been written.
  void check_untouched() { CHECK(damage(before_, now) == ""); }

  /// Names of the buffers that are outputs of both networks and differ in a bit.
  [[nodiscard]] std::string differences(Network& other) {
    std::vector<Buffer*> theirs;
    other.for_each([&](const char*, Buffer& buffer, bool is_output) {
      theirs.push_back(is_output ? &buffer : nullptr);
    });
    std::string names;
    std::size_t i = 0;
    now.for_each([&](const char* name, Buffer& buffer, bool is_output) {
      const Buffer* their = theirs[i++];
      if (!is_output || their == nullptr || buffer.has_same_bits(*their)) return;
      names += std::string(name) + " ";
    });
    return names;
  }
  /// Replays again and again: every time the bits of the first, wherever it starts from.
  void check_repeats(int replays) {
    replay();
    Network first = now;
    for (int i = 1; i < replays; ++i) {
      CAPTURE(i);
      replay(i % 2 == 0 || now.spec.accumulates());
      REQUIRE(differences(first) == "");
    }
  }

  Network now;
  std::vector<ai::Executable> executables;

 private:
  static void check(const ai::Status& status) { REQUIRE_MESSAGE(status.ok(), status.to_string()); }

  void hide_buffers(std::vector<ai::Program>& programs) {
    if (run_.hidden == Hidden::Buffers) return;
    const Place place = copies_.place();
    const auto hide = [&](ai::Program& program, const Buffer& buffer) {
      const auto made = program.temporary(buffer.tensor().desc, place.device, place.device_index);
      REQUIRE_MESSAGE(made.ok(), made.status().to_string());
      temporaries_.emplace(&buffer, *made);
    };
    for (std::size_t l = 0; l < now.depth(); ++l) {
      const Network::Layer& layer = now.layers[l];
      const bool is_last = l + 1 == now.depth();
      if (!run_.is_split && layer.z) hide(programs.front(), *layer.z);
      if (!run_.is_split && !is_last) hide(programs.front(), layer.y);
      if (!is_last) hide(programs.back(), layer.gy);
    }
  }
  [[nodiscard]] auto at() const {
    return [this, place = copies_.place()](const Buffer& buffer) {
      const auto found = temporaries_.find(&buffer);
      return found == temporaries_.end() ? place.tensor(buffer) : found->second;
    };
  }
  void add(ai::Program& program, const ai::Result<ai::GemmPlan>& plan) {
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    check(program.add(*plan));
  }
  void add_forward(ai::Program& program, std::size_t l) {
    add(program, ai::plan_forward(now.forward(l, at())));
    if (now.layers[l].z) observe(program, *now.layers[l].z);
    observe(program, now.layers[l].y);
  }
  void add_backward(ai::Program& program, std::size_t l) {
    add(program, ai::plan_backward(now.backward(l, at())));
    if (const Buffer* gradient = now.input_gradient(l)) observe(program, *gradient);
  }
  void observe(ai::Program& program, const Buffer& buffer) {
    const auto found = temporaries_.find(&buffer);
    if (run_.hidden != Hidden::Observed || found == temporaries_.end()) return;
    ai::UserStep step;
    step.name = "observe";
    step.reads = {found->second};
    step.writes = {copies_.place().tensor(buffer)};
    Copies::copies_first_read_to_first_write(step);
    check(program.add(std::move(step)));
  }

  NetworkRun run_;
  Network before_;
  Copies copies_;
  std::map<const Buffer*, ai::Tensor> temporaries_;
};

/// Whether node `to` waits for node `from`, at once or through others.
[[nodiscard]] inline bool waits_for(const std::vector<ai::Node>& nodes, std::size_t to,
                                    std::size_t from) {
  std::vector<bool> seen(nodes.size(), false);
  std::vector<std::size_t> open = {to};
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    for (const int before : nodes[node].depends_on) {
      const auto next = static_cast<std::size_t>(before);
      if (next == from) return true;
      if (!seen[next]) open.push_back(next);
      seen[next] = true;
    }
  }
  return false;
}

/// The nodes of each step whose name ends in `ending`, by step, in the order of the program. A step
/// of several nodes names them "step#1", "step#2", ...
[[nodiscard]] inline std::vector<std::vector<std::size_t>> nodes_of(
    const std::vector<ai::Node>& nodes, const std::string& ending) {
  std::vector<std::vector<std::size_t>> steps;
  bool is_same_step = false;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::size_t hash = nodes[i].name.find('#');
    const bool is_first = hash == std::string::npos || nodes[i].name.substr(hash) == "#1";
    const std::string step = nodes[i].name.substr(0, hash);
    const bool matches = step.size() >= ending.size() &&
                         step.compare(step.size() - ending.size(), ending.size(), ending) == 0;
    if (matches && (is_first || !is_same_step)) steps.emplace_back();
    if (matches) steps.back().push_back(i);
    is_same_step = matches;
  }
  return steps;
}

/// Empty where gA and gB of each layer do not wait for each other, and gB of the layer before waits
/// for gA; else what is wrong.
[[nodiscard]] inline std::string gradient_order(const std::vector<ai::Node>& nodes,
                                                std::size_t depth, bool with_gx) {
  const auto gas = nodes_of(nodes, "gA");  // the last layer comes first
  const auto gbs = nodes_of(nodes, "gB");
  if (gas.size() != depth - (with_gx ? 0 : 1) || gbs.size() != depth) {
    return std::to_string(gas.size()) + " gA and " + std::to_string(gbs.size()) + " gB of " +
           std::to_string(depth) + " layers";
  }
  const auto any_waits = [&](const auto& later, const auto& earlier) {
    for (const std::size_t to : later) {
      for (const std::size_t from : earlier) {
        if (waits_for(nodes, to, from)) return true;
      }
    }
    return false;
  };
  std::string wrong;
  for (std::size_t i = 0; i < gas.size(); ++i) {
    const std::string layer = " of layer " + std::to_string(depth - 1 - i);
    if (any_waits(gas[i], gbs[i])) wrong += "gA" + layer + " waits for gB; ";
    if (any_waits(gbs[i], gas[i])) wrong += "gB" + layer + " waits for gA; ";
    if (i + 1 < depth && !any_waits(gbs[i + 1], gas[i]))
      wrong += "nothing waits for gA" + layer + "; ";
  }
  return wrong;
}

/// The tests proper; a target runs each over its own `Copies`.
template <typename Copies>
void check_networks_in_buffers(const ai::CaptureOptions& options, std::size_t step, int replays) {
  for (NetworkSpec spec : networks(step)) {
    for (const std::int64_t pad : {0, 3}) {
      spec.pad = pad;
      CAPTURE(to_string(spec));
      for (const bool is_split : {false, true}) {
        CAPTURE(is_split);
        CapturedNetwork<Copies> network(spec, {Hidden::Buffers, is_split, options});
        network.replay();
        network.check_layers();
        if (pad == 0) network.check_repeats(replays);
      }
    }
  }
}

template <typename Copies>
void check_observed_networks(const ai::CaptureOptions& options, std::size_t step, int replays) {
  for (const NetworkSpec& spec : networks(step)) {
    CAPTURE(to_string(spec));
    CapturedNetwork<Copies> network(spec, {Hidden::Observed, false, options});
    network.replay();
    network.check_layers();
    network.check_repeats(replays);
  }
}

/// Same bits with hidden values in temporaries as in buffers; needs Tuning::Off, so that both take
/// the same candidates.
template <typename Copies>
void check_networks_in_temporaries(const ai::CaptureOptions& options, std::size_t step,
                                   int replays) {
  for (const NetworkSpec& spec : networks(step)) {
    CAPTURE(to_string(spec));
    CapturedNetwork<Copies> visible(spec, {Hidden::Buffers, false, options});
    visible.replay();
    for (const bool is_split : {false, true}) {
      CAPTURE(is_split);
      CapturedNetwork<Copies> network(spec, {Hidden::Temporaries, is_split, options});
      network.replay();
      CHECK(network.differences(visible.now) == "");
      network.check_untouched();
      network.check_repeats(replays);
    }
  }
}

template <typename Copies>
void check_network_graphs(const ai::CaptureOptions& options, std::size_t step) {
  for (const NetworkSpec& spec : networks(step)) {
    CAPTURE(to_string(spec));
    for (const Hidden hidden : {Hidden::Buffers, Hidden::Temporaries}) {
      for (const bool is_split : {false, true}) {
        CapturedNetwork<Copies> network(spec, {hidden, is_split, options});
        CHECK(gradient_order(network.executables.back().nodes(), network.now.depth(),
                             spec.with_gx) == "");
      }
    }
  }
}

}  // namespace support
