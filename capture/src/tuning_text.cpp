#include "capture/tuning_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "json_fields.hpp"

namespace ai::detail {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "graph_executor tuning";
constexpr std::int64_t kVersion = 1;
constexpr int kDeepest = 32;  // ours nest 5 deep; what handles values calls itself for each level
constexpr std::size_t kNamed = 5;    // damaged entries that a message names
constexpr std::size_t kShown = 200;  // characters of an entry's name that a message shows

constexpr std::array kMachineFields{"gpu", "sm_count", "driver", "cuda", "libraries", "library"};
constexpr std::array kChoiceFields{"candidate",    "recipe",     "time_us", "runner_up",
                                   "runner_up_us", "applicable", "timed",   "budget_s"};

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string shown(std::string name) {
  if (name.size() > kShown) name.replace(kShown, std::string::npos, "...");
  return Json(std::move(name)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// ---- Text to entries ----

std::string read_choice(const Json& json, StoredChoice& choice) {
  JsonFields fields(json);
  fields.get("candidate", choice.candidate.name);
  fields.get("recipe", choice.candidate.recipe);
  fields.get_time("time_us", choice.time_us);
  fields.get("runner_up", choice.runner_up);
  fields.get_time("runner_up_us", choice.runner_up_us);
  fields.get("applicable", choice.applicable);
  fields.get("timed", choice.timed);
  fields.get("budget_s", choice.budget_s);
  return fields.wrong();
}

std::string read_machine(const Json& json, TuningMachine& machine, const Json*& problems) {
  JsonFields fields(json);
  fields.get("gpu", machine.gpu);
  fields.get("sm_count", machine.sm_count);
  fields.get("driver", machine.driver);
  fields.get("cuda", machine.cuda);
  fields.get("libraries", machine.libraries);
  fields.get("library", machine.library);
  problems = fields.get_object("problems");
  return fields.wrong();
}

/// What precedes the version in a file of ours, as tokens; text may be cut off anywhere.
struct Opening {
  bool ours = false;
  std::optional<std::int64_t> version;
};

Opening read_opening(std::string_view rest) {
  const auto skip_blanks = [&] {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
  };
  constexpr std::array<std::string_view, 8> kTokens{
      "{", "\"format\"", ":", "\"graph_executor tuning\"", ",", "\"version\"", ":", ""};
  for (const auto token : kTokens) {
    skip_blanks();
    if (rest.size() < token.size()) return {token.starts_with(rest), std::nullopt};
    if (!rest.starts_with(token)) return {};
    rest.remove_prefix(token.size());
  }
  std::int64_t version = 0;
  const auto digits = rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size()));
  if (digits.empty()) return {true, std::nullopt};
  for (const char digit : digits.substr(0, 9)) version = version * 10 + (digit - '0');
  return {true, version};
}

/// The root of a text that is read as a tuning file of this version; else what is wrong with it.
struct Document {
  Json root;  ///< null where it is not to be read
  TuningText verdict;
};

Document damaged(std::string why) {
  return {nullptr, {{}, StatusCode::Invalid, text("is damaged (", why, ")"), /*replaceable=*/true}};
}
Document foreign(std::string_view why) {
  return {nullptr,
          {{}, StatusCode::Invalid, text("is no tuning file: ", why), /*replaceable=*/false}};
}
Document of_version(std::string_view version, bool newer) {
  return {nullptr,
          {{},
           StatusCode::Unsupported,
           text("is of version ", version, ", ", newer ? "newer" : "older", " than ", kVersion,
                ", the one that is read here"),
           /*replaceable=*/!newer}};
}

Document unreadable(std::string_view whole, const std::string& why) {
  const auto opening = read_opening(whole);
  if (!opening.ours) return foreign(text("it does not begin as one, and is no JSON (", why, ")"));
  if (opening.version && *opening.version > kVersion) {
    return of_version(std::to_string(*opening.version), /*newer=*/true);
  }
  return damaged(why);
}

Document read_document(std::string_view whole) {
  if (whole.empty()) return damaged("it is empty");
  if (nests_deeper_than(kDeepest, whole)) return unreadable(whole, "it nests too deeply");
  Document document;
  try {
    document.root = Json::parse(whole);
  } catch (const Json::parse_error& error) {
    return unreadable(whole, text("an error at byte ", static_cast<std::int64_t>(error.byte)));
  } catch (const Json::exception&) {
    return unreadable(whole, "a number in it is too large");
  }

  const Json& root = document.root;
  const auto format = root.is_object() ? root.find("format") : root.end();
  if (!root.is_object() || format == root.end() || *format != kFormat) {
    return foreign(text("it does not say \"format\": \"", kFormat, "\""));
  }
  const auto version = root.find("version");
  if (version == root.end() || !version->is_number()) return damaged("it says no version");
  if (*version != kVersion) return of_version(version->dump(), *version > kVersion);
  const auto machines = root.find("machines");
  if (machines == root.end() || !machines->is_array()) return damaged("it has no list of machines");
  return document;
}

// ---- Entries to text ----

struct MachineJson {
  Json fields = Json::object();  ///< unknown ones too; without its problems
  std::map<std::string, Json> problems;
};
using MachinesJson = std::map<TuningMachine, MachineJson>;

Json to_json(double time_us) {
  return std::isfinite(time_us) && time_us >= 0 ? Json(time_us) : Json();
}

Json to_json(const StoredChoice& choice) {
  const bool budget = std::isfinite(choice.budget_s) && choice.budget_s > 0;
  return {{"candidate", choice.candidate.name},
          {"recipe", choice.candidate.recipe},
          {"time_us", to_json(choice.time_us)},
          {"runner_up", choice.runner_up},
          {"runner_up_us", to_json(choice.runner_up_us)},
          {"applicable", std::max(choice.applicable, 0)},
          {"timed", std::max(choice.timed, 0)},
          {"budget_s", budget ? choice.budget_s : 0.0}};
}

Json to_json(const TuningMachine& machine) {
  return {{"gpu", machine.gpu},
          {"sm_count", std::max(machine.sm_count, 0)},
          {"driver", machine.driver},
          {"cuda", machine.cuda},
          {"libraries", machine.libraries},
          {"library", machine.library}};
}

/// The fields of `object`, each after `before` and its name: the known ones, then the others.
std::string fields_text(const Json& object, std::span<const char* const> known,
                        std::string_view between) {
  std::string out;
  const auto add = [&](const std::string& name, const Json& value) {
    if (!out.empty()) out += between;
    out += dump(name) + ": " + dump(value);
  };
  for (const char* const name : known) add(name, object.at(name));
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) add(name, value);
  }
  return out;
}

std::string file_text(const MachinesJson& machines) {
  std::string out = text("{\n  \"format\": ", dump(kFormat), ",\n  \"version\": ", kVersion,
                         ",\n  \"machines\": [");
  bool first_machine = true;
  for (const auto& [key, machine] : machines) {
    out += first_machine ? "\n    {\n      " : ",\n    {\n      ";
    first_machine = false;
    out += fields_text(machine.fields, kMachineFields, ",\n      ");
    out += ",\n      \"problems\": {";
    bool first_problem = true;
    for (const auto& [problem, choice] : machine.problems) {
      out += first_problem ? "\n        " : ",\n        ";
      first_problem = false;
      out += dump(problem) + ": {" + fields_text(choice, kChoiceFields, ", ") + '}';
    }
    out += "\n      }\n    }";
  }
  return out + "\n  ]\n}\n";
}

// ---- Both ----

/// Calls `entry(machine, its JSON, problem, its JSON, choice)` for every good entry; returns what
/// is wrong with the others.
template <typename Entry>
std::vector<std::string> for_each_entry(const Json& root, const Entry& entry) {
  std::vector<std::string> wrong;
  for (const Json& machine_json : root.at("machines")) {
    TuningMachine machine;
    const Json* problems = nullptr;
    if (auto why = read_machine(machine_json, machine, problems); !why.empty()) {
      wrong.push_back(text("a machine: ", why));
      continue;
    }
    for (const auto& [problem, choice_json] : problems->items()) {
      StoredChoice choice;
      if (auto why = read_choice(choice_json, choice); !why.empty()) {
        wrong.push_back(text(shown(problem), " of ", shown(machine.gpu), ": ", why));
      } else {
        entry(machine, machine_json, problem, choice_json, std::move(choice));
      }
    }
  }
  return wrong;
}

std::string list_of(const std::vector<std::string>& wrong) {
  std::string out;
  for (std::size_t i = 0; i < std::min(wrong.size(), kNamed); ++i) {
    out += (i == 0 ? "" : "; ") + wrong[i];
  }
  if (wrong.size() > kNamed) {
    out += text("; and ", static_cast<std::int64_t>(wrong.size() - kNamed), " more");
  }
  return out;
}

}  // namespace

TuningText parse_tuning(std::string_view whole) {
  auto document = read_document(whole);
  auto& out = document.verdict;
  if (document.root.is_null()) return std::move(out);
  const auto wrong = for_each_entry(
      document.root, [&](const TuningMachine& machine, const Json&, const std::string& problem,
                         const Json&, StoredChoice choice) {
        out.entries[machine].insert_or_assign(problem, std::move(choice));
      });
  if (!wrong.empty()) {
    out.code = StatusCode::Invalid;
    out.problem = text("has damaged entries, which are passed over: ", list_of(wrong));
  }
  return std::move(out);
}

std::string merge_tuning(std::string_view whole, const TuningEntries& added) {
  MachinesJson machines;
  if (const auto document = read_document(whole); !document.root.is_null()) {
    static_cast<void>(for_each_entry(
        document.root, [&](const TuningMachine& machine, const Json& machine_json,
                           const std::string& problem, const Json& choice_json, StoredChoice) {
          auto& here = machines[machine];
          if (here.fields.empty()) {
            here.fields = machine_json;
            here.fields.erase("problems");
          }
          here.problems.insert_or_assign(problem, choice_json);
        }));
  }
  for (const auto& [machine, choices] : added) {
    auto& here = machines[machine];
    if (here.fields.empty()) here.fields = to_json(machine);
    for (const auto& [problem, choice] : choices) {
      here.problems.insert_or_assign(problem, to_json(choice));
    }
  }
  return file_text(machines);
}

}  // namespace ai::detail
