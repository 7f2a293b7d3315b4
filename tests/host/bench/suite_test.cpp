// suite.json and rows of the protocol: what is read, and what is said of what cannot be.
#include "bench/suite.hpp"

#include <doctest/doctest.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/errors.hpp"

namespace {

using ai::ActKind;
using bench::Mode;

std::string error_of(const std::string& text) {
  try {
    (void)bench::parse_suite(text);
  } catch (const bench::Failed& failed) {
    return failed.what();
  }
  return "";
}
std::string with(const std::string& field, const std::string& value) {
  nlohmann::json workload = {
      {"name", "jet"}, {"layers", {16, 5}}, {"activation", "ReLU"}, {"batches", {1, 64}}};
  if (value.empty()) {
    workload.erase(field);
  } else {
    workload[field] = nlohmann::json::parse(value);
  }
  return nlohmann::json{{"workloads", {workload}}}.dump();
}

TEST_CASE("the suite holds exactly the workloads that results are quoted for") {
  const bench::Workload wanted[] = {
      {"jet", {16, 64, 32, 32, 5}, ActKind::ReLU, {1, 64}},
      {"policy", {64, 256, 256, 8}, ActKind::ReLU, {1, 64}},
      {"policy_tanh", {64, 64, 64, 8}, ActKind::Tanh, {1, 64}},
      {"legged", {235, 512, 256, 128, 12}, ActKind::ELU, {1, 64}},
      {"anomaly", {640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640}, ActKind::ReLU, {1}},
      {"pinn", {3, 20, 20, 20, 20, 20, 20, 20, 20, 2}, ActKind::Tanh, {256}},
      {"ncf", {256, 256, 128, 64}, ActKind::ReLU, {128}},
      {"ranking", {479, 1024, 1024, 512, 256, 1}, ActKind::ReLU, {1, 128}},
      {"radiance", {64, 64, 64, 64, 64, 64}, ActKind::ReLU, {16384}},
      {"wide", {1024, 1024, 1024, 1024, 1024}, ActKind::ReLU, {1, 16, 256}},
      {"ffn", {4096, 11008, 4096}, ActKind::GELUTanh, {1, 16, 512}},
      {"gemm", {4096, 4096}, ActKind::None, {4096}},
  };
  const auto suite = bench::built_in_suite();
  REQUIRE(suite.size() == std::size(wanted));
  for (std::size_t i = 0; i < suite.size(); ++i) {
    CAPTURE(wanted[i].name);
    CHECK(suite[i].name == wanted[i].name);
    CHECK(suite[i].layers == wanted[i].layers);
    CHECK(suite[i].activation == wanted[i].activation);
    CHECK(suite[i].batches == wanted[i].batches);
  }
}

TEST_CASE("a row is a workload with one batch in one mode") {
  const auto suite = bench::built_in_suite();
  const auto rows = bench::rows_of(suite);
  CHECK(rows.size() == 21 * 3);
  CHECK(rows[0].workload == "jet");
  CHECK(rows[0].batch == 1);
  CHECK(rows[0].mode == Mode::Forward);
  CHECK(rows[2].mode == Mode::TrainStep);
  CHECK(rows[3].batch == 64);
  CHECK(rows.back().workload == "gemm");
  CHECK(rows[0].depth() == 4);
  CHECK(rows[0].activation_of(2) == ActKind::ReLU);
  CHECK(rows[0].activation_of(3) == ActKind::None);
}

TEST_CASE("what is wrong with a suite is said with the workload and the field") {
  CHECK(error_of(with("name", "\"jet\"")) == "");
  CHECK(error_of("{\"workloads\": [").find("the suite is not JSON: ") == 0);
  CHECK(error_of("[1]") == "the suite is [1], expected an object");
  CHECK(error_of("{}") == "the suite has no field 'workloads'");
  CHECK(error_of("{\"workloads\": []}") ==
        "the suite: field 'workloads' is [], expected a list of workloads");
  CHECK(error_of("{\"workloads\": [3]}") == "workload 0 is 3, expected an object");
  CHECK(error_of(with("name", "")) == "workload 0 has no field 'name'");
  CHECK(error_of(with("name", "\"\"")) == "workload '': field 'name' is \"\", expected a text");
  CHECK(error_of(with("batches", "")) == "workload 'jet' has no field 'batches'");
  CHECK(error_of(with("batchs", "[1]")) ==
        "workload 'jet' has the field 'batchs', which means nothing here");
  CHECK(error_of(with("batches", "[]")) ==
        "workload 'jet': field 'batches' is [], expected a list of at least 1 integers of at least "
        "1");
  CHECK(error_of(with("batches", "[4,1,4]")) ==
        "workload 'jet': field 'batches' is [4,1,4], expected each batch once");
  CHECK(error_of(with("batches", "[2147483647]")) ==
        "workload 'jet': field 'batches' is [2147483647], expected matrices of fewer than 2^31 "
        "elements");
  for (const char* layers : {"[16]", "[16,0]", "[16,-5]", "[16,1.5]", "[16,\"5\"]", "16",
                             "[16,4294967297]", "[16,18446744073709551615]"}) {
    CAPTURE(layers);
    CHECK(error_of(with("layers", layers)) ==
          "workload 'jet': field 'layers' is " + std::string(layers) +
              ", expected a list of at least 2 integers of at least 1");
  }
  CHECK(error_of(with("layers", "[65536,65536]")) ==
        "workload 'jet': field 'layers' is [65536,65536], expected weights of fewer than 2^31 "
        "elements");
  CHECK(error_of(with("activation", "\"Relu\"")) ==
        "workload 'jet': field 'activation' is \"Relu\", expected one of None, ReLU, LeakyReLU, "
        "ELU, GELU, GELUTanh, "
        "SiLU, Sigmoid, Tanh");
  CHECK(error_of(with("activation", "1")) ==
        "workload 'jet': field 'activation' is 1, expected a text");

  nlohmann::json twice = nlohmann::json::parse(with("name", "\"jet\""));
  twice["workloads"].push_back(twice["workloads"][0]);
  CHECK(error_of(twice.dump()) == "workload 'jet': field 'name' is that of an earlier one");
}

TEST_CASE("a row of the protocol is read, or refused by its field") {
  nlohmann::json json = {{"workload", "x"},
                         {"layers", {3, 2}},
                         {"activation", "Tanh"},
                         {"batch", 7},
                         {"mode", "forward_backward"}};
  const bench::Row row = bench::parse_row(json);
  CHECK(row.workload == "x");
  CHECK(row.layers == std::vector<int>{3, 2});
  CHECK(row.activation == ActKind::Tanh);
  CHECK(row.batch == 7);
  CHECK(row.mode == Mode::ForwardBackward);
  for (const Mode mode : {Mode::Forward, Mode::ForwardBackward, Mode::TrainStep}) {
    CHECK(bench::parse_mode(bench::to_string(mode)) == mode);
  }
  json["mode"] = "backward";
  CHECK_THROWS_WITH_AS((void)bench::parse_row(json),
                       "mode is 'backward', expected forward, forward_backward or train_step",
                       bench::Failed);
  json["mode"] = "forward";
  json["batch"] = 0;
  CHECK_THROWS_WITH_AS((void)bench::parse_row(json),
                       "the row: field 'batch' is 0, expected an integer of at least 1",
                       bench::Failed);
}

}  // namespace
