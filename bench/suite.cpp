#include "suite.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>

#include "errors.hpp"
#include "suite_text.hpp"

namespace bench {
namespace {

using Json = nlohmann::json;

constexpr ai::ActKind kActivations[] = {
    ai::ActKind::None, ai::ActKind::ReLU,    ai::ActKind::LeakyReLU,
    ai::ActKind::ELU,  ai::ActKind::GELU,    ai::ActKind::GELUTanh,
    ai::ActKind::SiLU, ai::ActKind::Sigmoid, ai::ActKind::Tanh};
constexpr Mode kModes[] = {Mode::Forward, Mode::ForwardBackward, Mode::TrainStep};

/// A JSON object, and what errors call it.
class Object {
 public:
  Object(const Json& object, std::string name, std::initializer_list<const char*> fields)
      : object_(object), name_(std::move(name)) {
    if (!object.is_object()) {
      throw Failed(name_ + " is " + object.dump() + ", expected an object");
    }
    for (const auto& item : object.items()) {
      const auto is_it = [&](const char* field) { return item.key() == field; };
      if (std::none_of(fields.begin(), fields.end(), is_it)) {
        throw Failed(name_ + " has the field '" + item.key() + "', which means nothing here");
      }
    }
  }

  [[nodiscard]] const Json& at(const char* field) const {
    const auto found = object_.find(field);
    if (found == object_.end()) throw Failed(name_ + " has no field '" + field + "'");
    return *found;
  }
  [[noreturn]] void refuse(const char* field, const std::string& wanted) const {
    throw Failed(name_ + ": field '" + field + "' is " + at(field).dump() + ", expected " + wanted);
  }

  [[nodiscard]] std::string text(const char* field) const {
    const Json& value = at(field);
    if (!value.is_string() || value.get<std::string>().empty()) refuse(field, "a text");
    return value.get<std::string>();
  }
  [[nodiscard]] int positive(const char* field) const {
    if (!is_positive(at(field))) refuse(field, "an integer of at least 1");
    return at(field).get<int>();
  }
  [[nodiscard]] std::vector<int> positives(const char* field, std::size_t at_least) const {
    const Json& values = at(field);
    if (!values.is_array() || values.size() < at_least ||
        !std::all_of(values.begin(), values.end(), is_positive)) {
      refuse(field, "a list of at least " + std::to_string(at_least) + " integers of at least 1");
    }
    return values.get<std::vector<int>>();
  }
  [[nodiscard]] ai::ActKind activation() const {
    const std::string name = text("activation");
    std::string names;
    for (const ai::ActKind kind : kActivations) {
      if (name == ai::to_string(kind)) return kind;
      names += std::string(names.empty() ? "" : ", ") + ai::to_string(kind);
    }
    refuse("activation", "one of " + names);
  }
  /// Matrices are indexed by 32-bit integers here.
  void check_sizes(const std::vector<int>& layers, const std::vector<int>& batches,
                   const char* batch_field) const {
    const auto is_small = [](int rows, int cols) {
      return std::int64_t{rows} * cols <= std::numeric_limits<std::int32_t>::max();
    };
    for (std::size_t l = 0; l < layers.size(); ++l) {
      if (l > 0 && !is_small(layers[l - 1], layers[l])) {
        refuse("layers", "weights of fewer than 2^31 elements");
      }
      for (const int batch : batches) {
        if (!is_small(batch, layers[l])) {
          refuse(batch_field, "matrices of fewer than 2^31 elements");
        }
      }
    }
  }

 private:
  static bool is_positive(const Json& value) {
    return value.is_number_integer() && value >= 1 &&
           value <= std::numeric_limits<std::int32_t>::max();
  }

  const Json& object_;
  std::string name_;
};

Workload parse_workload(const Json& json, std::size_t index) {
  std::string name = "workload " + std::to_string(index);
  if (json.is_object() && json.contains("name") && json["name"].is_string()) {
    name = "workload '" + json["name"].get<std::string>() + "'";
  }
  const Object object(json, name, {"name", "layers", "activation", "batches"});
  Workload workload;
  workload.name = object.text("name");
  workload.layers = object.positives("layers", 2);
  workload.activation = object.activation();
  workload.batches = object.positives("batches", 1);
  object.check_sizes(workload.layers, workload.batches, "batches");
  std::vector<int> sorted = workload.batches;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    object.refuse("batches", "each batch once");
  }
  return workload;
}

}  // namespace

const char* to_string(Mode mode) {
  switch (mode) {
    case Mode::Forward: return "forward";
    case Mode::ForwardBackward: return "forward_backward";
    case Mode::TrainStep: return "train_step";
  }
  return "unknown";
}

Mode parse_mode(std::string_view name) {
  for (const Mode mode : kModes) {
    if (name == to_string(mode)) return mode;
  }
  throw Failed("mode is '" + std::string(name) +
               "', expected forward, forward_backward or train_step");
}

std::vector<Workload> parse_suite(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw Failed(std::string("the suite is not JSON: ") + error.what());
  }
  const Object object(json, "the suite", {"workloads"});
  const Json& list = object.at("workloads");
  if (!list.is_array() || list.empty()) object.refuse("workloads", "a list of workloads");
  std::vector<Workload> suite;
  for (const Json& item : list) {
    Workload workload = parse_workload(item, suite.size());
    for (const Workload& earlier : suite) {
      if (earlier.name == workload.name) {
        throw Failed("workload '" + workload.name + "': field 'name' is that of an earlier one");
      }
    }
    suite.push_back(std::move(workload));
  }
  return suite;
}

std::vector<Workload> built_in_suite() {
  return parse_suite(kSuiteText);
}

std::vector<Row> rows_of(const std::vector<Workload>& suite) {
  std::vector<Row> rows;
  for (const Workload& workload : suite) {
    for (const int batch : workload.batches) {
      for (const Mode mode : kModes) {
        rows.push_back({workload.name, workload.layers, workload.activation, batch, mode});
      }
    }
  }
  return rows;
}

Row parse_row(const Json& json) {
  const Object object(json, "the row", {"workload", "layers", "activation", "batch", "mode"});
  Row row;
  row.workload = object.text("workload");
  row.layers = object.positives("layers", 2);
  row.activation = object.activation();
  row.batch = object.positive("batch");
  row.mode = parse_mode(object.text("mode"));
  object.check_sizes(row.layers, {row.batch}, "batch");
  return row;
}

}  // namespace bench
