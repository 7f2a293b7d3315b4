#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "compare.hpp"

/// Runs one case on some target and holds every output, and everything around it, against the
/// oracle.
namespace support {

/// Names of the operands that were written where they must not be.
template <typename Data>
[[nodiscard]] std::string damage(Data& before, Data& after) {
  std::string names;
  std::vector<Buffer*> old;
  before.for_each([&](const char*, Buffer& buffer, bool) { old.push_back(&buffer); });
  std::size_t i = 0;
  after.for_each([&](const char* name, Buffer& buffer, bool is_output) {
    const bool is_kept = is_output ? buffer.canaries_are_intact() : buffer.has_same_bits(*old[i]);
    if (!is_kept) names += std::string(name) + " ";
    ++i;
  });
  return names;
}

/// Names of the operands whose bits differ.
template <typename Data>
[[nodiscard]] std::string different_bits(Data& one, Data& other) {
  std::string names;
  std::vector<Buffer*> buffers;
  one.for_each([&](const char*, Buffer& buffer, bool) { buffers.push_back(&buffer); });
  std::size_t i = 0;
  other.for_each([&](const char* name, Buffer& buffer, bool) {
    if (!buffer.has_same_bits(*buffers[i++])) names += std::string(name) + " ";
  });
  return names;
}

/// What each output of a call should hold, by the operand's name.
using Answers = std::map<std::string, oracle::Table>;
[[nodiscard]] inline Answers answers(const ForwardData& data) {
  oracle::Forward expected = oracle::forward(data.call());
  return {{"Y", std::move(expected.y)}, {"Z", std::move(expected.z)}};
}
[[nodiscard]] inline Answers answers(const BackwardData& data) {
  oracle::Backward expected = oracle::backward(data.call());
  return {{"gA", std::move(expected.ga)},
          {"gB", std::move(expected.gb)},
          {"gC", std::move(expected.gc)},
          {"gBias", std::move(expected.gbias)}};
}

/// What was run and compared.
struct Tally {
  std::size_t calls = 0;
  std::size_t outputs = 0;
  std::size_t elements = 0;
};

/// What is wrong with what a run left in `data`, a copy of `before`: outputs that differ (bitwise
/// where the case's values are exact), then operands written where they must not be. Empty:
/// nothing.
template <typename Data>
[[nodiscard]] std::string faults(const Data& before, Data& data, const Answers& expected) {
  const bool is_exact = before.spec.values != Values::Random;
  std::string text;
  data.for_each([&](const char* name, Buffer& given, bool is_output) {
    if (!is_output) return;
    const oracle::Table& wanted = expected.at(name);
    const std::string wrong =
        is_exact ? exact_difference(name, wanted, given) : difference(name, wanted, given);
    if (!wrong.empty()) text += wrong + "; ";
  });
  Data original = before;
  const std::string damaged = damage(original, data);
  if (!damaged.empty()) text += "damaged: " + damaged;
  return text;
}

/// Runs on `data`, a copy of `before`. True where all is right.
template <typename Data, typename Run>
bool check_run(const Data& before, Data& data, const Answers& expected, Run&& run, Tally& tally) {
  const ai::Status status = run(data);
  CHECK_MESSAGE(status.ok(), status.to_string());
  if (!status.ok()) return false;
  const std::string wrong = faults(before, data, expected);
  CHECK(wrong == "");
  ++tally.calls;
  data.for_each([&](const char* name, Buffer&, bool is_output) {
    if (!is_output) return;
    ++tally.outputs;
    tally.elements += expected.at(name).size();
  });
  return wrong.empty();
}

/// One run of one direction; nothing where the case has no call in it. `run(data)` carries out
/// data.call().
template <typename Data, typename Run>
void check_call(const Case& c, Run&& run) {
  if (!asks<Data>(c)) return;
  CAPTURE(to_string(c));
  const Data before(c);
  Data data = before;
  Tally tally;
  check_run(before, data, answers(before), run, tally);
}
template <typename Run>
void check_forward(const Case& c, Run&& run) {
  check_call<ForwardData>(c, run);
}
template <typename Run>
void check_backward(const Case& c, Run&& run) {
  check_call<BackwardData>(c, run);
}

/// One way to the results: `run(data)` carries out data.call(), forward or backward.
struct Road {
  template <typename Run>
  Road(std::string given_name, Run run, bool has_bits = false)
      : name(std::move(given_name)), forward(run), backward(run), has_bits_of_previous(has_bits) {}
  ai::Status operator()(ForwardData& data) const { return forward(data); }
  ai::Status operator()(BackwardData& data) const { return backward(data); }

  std::string name;  // doctest prints the address of a plain pointer
  std::function<ai::Status(ForwardData&)> forward;
  std::function<ai::Status(BackwardData&)> backward;
  bool has_bits_of_previous;  ///< what it leaves is bitwise what the road before it leaves
};

/// Each road is held against the oracle and, where that is promised, against another's bits.
template <typename Data>
bool check_roads(const Data& before, const std::vector<Road>& roads, std::vector<Tally>& tallies) {
  const Answers expected = answers(before);
  std::optional<Data> previous;
  bool is_right = true;
  for (std::size_t i = 0; i < roads.size(); ++i) {
    CAPTURE(roads[i].name);
    Data data = before;
    is_right = check_run(before, data, expected, roads[i], tallies[i]) && is_right;
    if (previous && roads[i].has_bits_of_previous) {
      const std::string differing = different_bits(*previous, data);
      CHECK(differing == "");
      is_right = is_right && differing.empty();
    }
    previous = std::move(data);
  }
  return is_right;
}

/// Both directions of each case, as far as it has them, on every road; says how much that was.
/// Gives up after some failures: what breaks one case breaks a thousand, as a rule.
inline void check_on_every_road(const char* group, const std::vector<Case>& cases,
                                const std::vector<Road>& roads) {
  constexpr int kMostFailures = 10;
  std::vector<Tally> tallies(roads.size());
  int failures = 0;
  for (const Case& c : cases) {
    CAPTURE(to_string(c));
    if (asks<ForwardData>(c)) {
      INFO("forward");
      failures += check_roads(ForwardData(c), roads, tallies) ? 0 : 1;
    }
    if (asks<BackwardData>(c)) {
      INFO("backward");
      failures += check_roads(BackwardData(c), roads, tallies) ? 0 : 1;
    }
    REQUIRE_MESSAGE(failures < kMostFailures, "so many failures that the rest is not run");
  }
  std::string text = std::string(group) + ": " + std::to_string(cases.size()) + " cases";
  for (std::size_t i = 0; i < roads.size(); ++i) {
    text += "; " + roads[i].name + " " + std::to_string(tallies[i].calls) + " calls, " +
            std::to_string(tallies[i].outputs) + " outputs, " +
            std::to_string(tallies[i].elements) + " elements";
  }
  MESSAGE(text);
}

}  // namespace support
