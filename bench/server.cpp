#include "server.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>

#include "session.hpp"
#include "software.hpp"
#include "suite.hpp"

namespace bench {
namespace {

using Json = nlohmann::json;

/// Four decimals of what is measured in micro- or milliseconds are plenty.
double rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

Json to_json(const Prepared& prepared) {
  Json json = {{"ok", prepared.ok}};
  if (!prepared.error.empty()) json["error"] = prepared.error;
  if (prepared.absent) json["absent"] = true;
  if (prepared.checked == 0) return json;
  json["nodes"] = prepared.nodes;
  json["workspace_bytes"] = prepared.workspace_bytes;
  json["variant"] = prepared.variant;
  // JSON has no infinity.
  json["error_ratio"] = std::isfinite(prepared.error_ratio) ? prepared.error_ratio : 1e30;
  json["checked"] = prepared.checked;
  if (prepared.starts) {
    json["plan_capture_cold_ms"] = rounded(prepared.starts->cold_ms);
    json["plan_capture_cached_ms"] = rounded(prepared.starts->cached_ms);
    json["second_start"] = {{"candidates_timed", prepared.starts->candidates_timed},
                            {"heuristic_queries", prepared.starts->heuristic_queries}};
  }
  return json;
}

bool tells_of_an_error(const Json& reply) {
  if (!reply.at("ok")) return true;
  const Json prepared = reply.value("prepared", Json::object());
  return std::any_of(prepared.begin(), prepared.end(),
                     [](const Json& each) { return !each.at("ok"); });
}

class Server {
 public:
  Json answer(const Json& request) {
    const std::string what = request.at("do");
    if (what == "quit") return {{"ok", true}};
    if (!session_) session_.emplace();
    if (what == "describe") return describe();
    if (what == "prepare") return prepare(request);
    if (what == "measure") return measured(request);
    if (what == "warm") {
      session_->warm(request.at("seconds"));
      return {{"ok", true}};
    }
    if (what == "clocks") {
      const auto mhz = sm_clock_mhz();
      return {{"ok", true}, {"sm_mhz", mhz ? Json(*mhz) : Json()}};
    }
    if (what == "release") {
      session_->release();
      return {{"ok", true}};
    }
    throw Failed("do is '" + what +
                 "', expected describe, prepare, measure, warm, clocks, release or quit");
  }

  /// Ends the process where the context is lost, which no call brings back, so that whoever asks
  /// starts it again. Nothing can be freed then.
  void end_if_lost() const {
    if (!session_) return;
    const cudaError_t error = cudaDeviceSynchronize();
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "bench_suite: the CUDA context is lost: %s\n", cudaGetErrorString(error));
    std::fflush(stderr);
    std::_Exit(kContextLost);
  }

 private:
  static constexpr int kContextLost = 3;

  static Json describe() {
    const Software found = software();
    return {{"ok", true},
            {"contestants", contestant_names()},
            {"gpu", found.gpu},
            {"gpu_id", found.gpu_id},
            {"driver", found.driver},
            {"cuda", found.cuda},
            {"cublaslt", found.cublaslt},
            {"versions", Json::object()},
            {"l2_bytes", found.l2_bytes},
            {"sm_count", found.sm_count}};
  }

  Json prepare(const Json& request) {
    const Row row = parse_row(request.at("row"));
    session_->release();
    Json all = Json::object();
    for (const std::string name : request.at("contestants")) {
      all[name] = to_json(session_->prepare(row, name, request.value("budget_s", kBudgetSeconds)));
    }
    return {{"ok", true}, {"prepared", all}};
  }

  Json measured(const Json& request) {
    const std::string name = request.at("contestant");
    const std::string what = request.at("what");
    std::vector<double> samples = session_->measure(name, parse_what(what), request.at("seconds"));
    for (double& sample : samples) sample = rounded(sample);
    return {{"ok", true}, {"us", samples}};
  }

  std::optional<Session> session_;
};

}  // namespace

void serve(std::istream& in, std::ostream& out) {
  Server server;
  std::string line;
  bool is_over = false;
  while (!is_over && std::getline(in, line)) {
    Json reply;
    try {
      const Json request = Json::parse(line);
      reply = server.answer(request);
      is_over = request.at("do") == "quit";
    } catch (const Absent& absent) {
      reply = {{"ok", false}, {"absent", true}, {"error", absent.what()}};
    } catch (const std::exception& failed) {
      reply = {{"ok", false}, {"error", failed.what()}};
    }
    out << reply.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    if (tells_of_an_error(reply)) server.end_if_lost();
  }
}

}  // namespace bench
