#include "capture/tuning_text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <limits>
#include <string>
#include <string_view>

#include "tuning_support.hpp"

namespace {

using ai::StatusCode;
using ai::detail::merge_tuning;
using ai::detail::parse_tuning;
using ai::detail::TuningEntries;
using namespace tuning;

constexpr std::string_view kText = R"({
  "format": "graph_executor tuning",
  "version": 1,
  "machines": [
    {
      "gpu": "NVIDIA H200",
      "sm_count": 132,
      "driver": "580.159.04, CUDA 13.0",
      "cuda": "13.0",
      "libraries": "cuBLASLt 13.1.0",
      "library": "0.1.0",
      "problems": {
        "a": {"candidate": "own/1", "recipe": "", "time_us": 1.5, "runner_up": "", "runner_up_us": null, "applicable": 1, "timed": 1, "budget_s": 0.0},
        "b": {"candidate": "lt/3", "recipe": "lt 0 00ff", "time_us": 2.25, "runner_up": "own/1", "runner_up_us": 3.0, "applicable": 9, "timed": 7, "budget_s": 2.0}
      }
    }
  ]
}
)";

TuningEntries entries() {
  return {{machine(),
           {{"b", {{"lt/3", "lt 0 00ff"}, 2.25, "own/1", 3, 9, 7, 2}},
            {"a", {{"own/1", ""}, 1.5, "", -1, 1, 1, 0}}}}};
}

/// kText with `from` replaced.
std::string edited(std::string_view from, std::string_view to) {
  std::string text(kText);
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a tuning file reads like this, and says what it was made of") {
  CHECK(merge_tuning("", entries()) == kText);
  const auto read = parse_tuning(kText);
  CHECK(read.problem == "");
  CHECK(read.code == StatusCode::Ok);
  CHECK(read.replaceable);
  CHECK(read.entries == entries());
}

TEST_CASE("the order of what is stored does not show in a tuning file") {
  auto last = machine();
  last.sm_count = 200;
  const TuningEntries one_way{{last, one("c")}, {machine(), one("z")}};
  const auto text = merge_tuning(merge_tuning(kText, one_way), {{machine(), one("m")}});
  const auto other = merge_tuning(merge_tuning("", {{machine(), one("m")}}), one_way);
  CHECK(text == merge_tuning(other, entries()));
  CHECK(text.find("\"m\"") < text.find("\"z\""));
  CHECK(text.find("\"z\"") < text.find("\"c\""));
  CHECK(merge_tuning(text, {}) == text);
}

TEST_CASE("what is stored later stands in the place of what was there") {
  const auto text = merge_tuning(kText, {{machine(), one("b", 5)}});
  auto expected = entries();
  expected.begin()->second["b"] = choice(5);
  CHECK(parse_tuning(text).entries == expected);
}

TEST_CASE("times that are no times become unknown, and the file stays JSON") {
  for (const double time : {std::nan(""), std::numeric_limits<double>::infinity(), -2.0, -1.0}) {
    CAPTURE(time);
    const StoredChoice odd{{"own/1", ""}, time, "x", time, -3, -4, time};
    const auto text = merge_tuning("", {{machine(), {{"a", odd}}}});
    const auto read = parse_tuning(text);
    CHECK(read.problem == "");
    const StoredChoice expected{{"own/1", ""}, -1, "x", -1, 0, 0, 0};
    CHECK(read.entries.at(machine()).at("a") == expected);
  }
}

TEST_CASE("names may hold anything that is UTF-8, and what is none does no harm") {
  const std::string name = "quote \" back\\slash\n\t \xc3\xa9 { } [ ]" + std::string(40, '{');
  CHECK(parse_tuning(merge_tuning("", {{machine(), one(name)}})).entries ==
        TuningEntries{{machine(), one(name)}});
  auto odd = machine();
  odd.gpu = "\xff\xfe";
  const auto text = merge_tuning("", {{odd, one("\x80")}});
  CHECK(parse_tuning(text).problem == "");
  CHECK(parse_tuning(merge_tuning(text, entries())).entries.at(machine()).size() == 2);
}

TEST_CASE("a damaged entry is passed over and named, and the others stay") {
  const struct {
    std::string_view from, to, says;
  } kCases[]{
      {R"("time_us": 1.5)", R"("time_us": "1.5")",
       R"("a" of "NVIDIA H200": "time_us" is of type string)"},
      {R"("time_us": 1.5)", R"("time_us": -1.5)",
       R"("time_us" is -1.5, expected a number that is not negative)"},
      {R"("time_us": 1.5, )", "", R"("time_us" is missing)"},
      {R"("candidate": "own/1")", R"("candidate": 1)", R"("candidate" is 1, expected a string)"},
      {R"("candidate": "own/1", )", "", R"("candidate" is missing)"},
      {R"("recipe": "")", R"("recipe": null)", R"("recipe" is of type null)"},
      {R"("runner_up_us": null)", R"("runner_up_us": [])", R"("runner_up_us" is of type array)"},
      {R"("applicable": 1)", R"("applicable": 1.5)", R"("applicable" is 1.5, expected a count)"},
      {R"("applicable": 1)", R"("applicable": -1)", R"("applicable" is -1, expected a count)"},
      {R"("timed": 1)", R"("timed": 2147483648)", R"("timed" is 2147483648, expected a count)"},
      {R"("timed": 1)", R"("timed": 18446744073709551615)", R"("timed" is 18446744073709551615)"},
      {R"("budget_s": 0.0)", R"("budget_s": null)", R"("budget_s" is of type null)"},
  };
  for (const auto& each : kCases) {
    CAPTURE(each.to);
    const auto text = edited(each.from, each.to);
    const auto read = parse_tuning(text);
    CHECK(read.code == StatusCode::Invalid);
    CHECK(read.replaceable);
    CHECK_MESSAGE(contains(read.problem, each.says), read.problem);
    auto expected = entries();
    expected.begin()->second.erase("a");
    CHECK(read.entries == expected);
    CHECK(parse_tuning(merge_tuning(text, {})).problem == "");  // gone with the next store
  }
}

TEST_CASE("an entry that is no object, and a machine that is none, are passed over and named") {
  auto read = parse_tuning(merge_tuning("", {}));
  CHECK(read.problem == "");
  CHECK(read.entries.empty());
  read = parse_tuning(
      edited(R"("a": {"candidate": "own/1")", R"("a": 5, "c": {"candidate": "own/1")"));
  CHECK_MESSAGE(contains(read.problem, "\"a\" of \"NVIDIA H200\": it is 5, expected an object"),
                read.problem);
  CHECK(read.entries.at(machine()).size() == 2);
  read = parse_tuning(edited("\"sm_count\": 132", "\"sm_count\": \"132\""));
  CHECK_MESSAGE(contains(read.problem, "a machine: \"sm_count\" is of type string"), read.problem);
  CHECK(read.entries.empty());
  read = parse_tuning(edited("\"machines\": [", "\"machines\": [null, "));
  CHECK_MESSAGE(contains(read.problem, "a machine: it is of type null"), read.problem);
  CHECK(read.entries == entries());
}

TEST_CASE("a message names a few damaged entries, and counts the others") {
  std::string problems = "\"problems\": {";
  for (int i = 0; i < 50; ++i) problems += "\"bad" + std::to_string(100 + i) + "\": 0, ";
  problems += "\"" + std::string(100000, 'x') + "\": 0, ";
  const auto problem = parse_tuning(edited("\"problems\": {", problems)).problem;
  CHECK_MESSAGE(contains(problem, "bad104"), problem);
  CHECK_FALSE(contains(problem, "bad105"));
  CHECK_MESSAGE(contains(problem, "and 46 more"), problem);
  CHECK(problem.size() < 2000);
}

TEST_CASE("fields that this version does not know stay with entries that it does not touch") {
  auto text = edited("\"timed\": 1,", "\"timed\": 1, \"note\": {\"by\": [1, 2.5]},");
  text.replace(text.find("\"cuda\""), 0, "\"host\": \"x\", ");
  text.replace(text.find("\"version\""), 0, "\"comment\": \"mine\", ");
  const auto kept = merge_tuning(text, {{machine(), one("b", 3)}});
  CHECK(contains(kept, "\"note\": {\"by\":[1,2.5]}"));
  CHECK(contains(kept, "\"host\": \"x\""));
  CHECK_FALSE(contains(kept, "comment"));
  CHECK_FALSE(contains(merge_tuning(kept, {{machine(), one("a")}}), "note"));
}

TEST_CASE("a machine that a file has twice is one") {
  const auto text = std::string(kText);
  const auto begin = text.find("    {\n");
  const auto end = text.find("  ]\n}");
  auto second = text.substr(begin, end - begin);
  second.replace(second.find("\"b\""), 3, "\"c\"");
  auto twice = text;
  twice.insert(begin, second.substr(0, second.size() - 1) + ",\n");
  const auto read = parse_tuning(twice);
  CHECK(read.problem == "");
  CHECK(read.entries.size() == 1);
  CHECK(read.entries.at(machine()).size() == 3);
  CHECK(parse_tuning(merge_tuning(twice, {})).entries == read.entries);
}

TEST_CASE("a tuning file that was cut off anywhere is damaged, and may be replaced") {
  for (std::size_t bytes = 0; bytes + 2 < kText.size(); ++bytes) {
    CAPTURE(bytes);
    const auto read = parse_tuning(kText.substr(0, bytes));
    CHECK(read.code == StatusCode::Invalid);
    CHECK_MESSAGE(contains(read.problem, "is damaged"), read.problem);
    CHECK(read.replaceable);
    CHECK(read.entries.empty());
    CHECK(merge_tuning(kText.substr(0, bytes), entries()) == kText);
  }
}

TEST_CASE("a tuning file with any byte changed gives entries or a problem, and can be merged") {
  for (std::size_t at = 0; at < kText.size(); ++at) {
    for (const char byte : {'\0', '"', '{', ']', '9', '-', '\xff'}) {
      std::string text(kText);
      text[at] = byte;
      const auto read = parse_tuning(text);
      if (read.problem.empty()) CHECK(read.code == StatusCode::Ok);
      CHECK(parse_tuning(merge_tuning(text, entries())).entries.at(machine()).size() >= 2);
    }
  }
}

/// Seconds of this process for reading a file of so many entries, the better of two times.
double seconds_to_parse(int entries) {
  TuningCache::Choices choices;
  for (int i = 0; i < entries; ++i) choices.emplace("problem " + std::to_string(i), choice(i));
  const std::string whole = merge_tuning({}, {{machine(), choices}});
  double best = 0;
  for (int i = 0; i < 2; ++i) {
    const std::clock_t begin = std::clock();
    CHECK(parse_tuning(whole).entries.at(machine()).size() == choices.size());
    const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    best = i == 0 ? took : std::min(best, took);
  }
  return best;
}

TEST_CASE("the time of reading a file grows with its entries, not with their square") {
  CHECK(seconds_to_parse(16000) < 50 * seconds_to_parse(1000));
}

TEST_CASE("what is no tuning file is told from one that is damaged, and from other versions") {
  const std::string deep =
      "{\"format\": \"graph_executor tuning\", \"version\": 1, \"machines\": " +
      std::string(1000000, '[') + std::string(1000000, ']') + "}";
  const struct {
    std::string text;
    std::string_view says;
    StatusCode code;
    bool replaceable;
  } kCases[]{
      {"", "is damaged (it is empty)", StatusCode::Invalid, true},
      {" \n", "is damaged", StatusCode::Invalid, true},
      {"{", "is damaged", StatusCode::Invalid, true},
      {"{}", "is no tuning file", StatusCode::Invalid, false},
      {"[]", "is no tuning file", StatusCode::Invalid, false},
      {"null", "is no tuning file", StatusCode::Invalid, false},
      {"\"graph_executor tuning\"", "is no tuning file", StatusCode::Invalid, false},
      {"graph_executor tuning", "is no tuning file", StatusCode::Invalid, false},
      {"{\"format\": \"other\", \"version\": 1, \"machines\": []}", "is no tuning file",
       StatusCode::Invalid, false},
      {"{\"format\": 1}", "is no tuning file", StatusCode::Invalid, false},
      {"{\"layers\": [1,", "is no tuning file", StatusCode::Invalid, false},
      {std::string("\x7f"
                   "ELF\0\1\2",
                   7),
       "is no tuning file", StatusCode::Invalid, false},
      {std::string(100, '\0'), "is no tuning file", StatusCode::Invalid, false},
      {std::string(1000000, '['), "is no tuning file", StatusCode::Invalid, false},
      {deep, "is damaged (it nests too deeply)", StatusCode::Invalid, true},
      {std::string(kText) + "x", "is damaged (an error at byte", StatusCode::Invalid, true},
      {edited("2.25", "1e999"), "is damaged (a number in it is too large)", StatusCode::Invalid,
       true},
      {edited("\"version\": 1,", ""), "it says no version", StatusCode::Invalid, true},
      {edited("\"version\": 1", "\"version\": \"1\""), "it says no version", StatusCode::Invalid,
       true},
      {edited("\"version\": 1", "\"version\": 0"), "is of version 0, older than 1",
       StatusCode::Unsupported, true},
      {edited("\"version\": 1", "\"version\": 2"), "is of version 2, newer than 1",
       StatusCode::Unsupported, false},
      {edited("\"version\": 1", "\"version\": 1.5"), "is of version 1.5, newer",
       StatusCode::Unsupported, false},
      {"{\"format\": \"graph_executor tuning\", \"version\": 2}\nbinary", "is of version 2, newer",
       StatusCode::Unsupported, false},
      {"{\"format\": \"graph_executor tuning\", \"version\": 12345678901234567890", "newer",
       StatusCode::Unsupported, false},
      {edited("\"machines\": [", "\"others\": ["), "it has no list of machines",
       StatusCode::Invalid, true},
  };
  for (const auto& each : kCases) {
    CAPTURE(each.text.substr(0, 80));
    const auto read = parse_tuning(each.text);
    CHECK_MESSAGE(contains(read.problem, each.says), read.problem);
    CHECK(read.code == each.code);
    CHECK(read.replaceable == each.replaceable);
    CHECK(read.entries.empty());
    CHECK(read.problem.size() < 300);
  }
}

}  // namespace
