#include "session.hpp"

#include <algorithm>

#include "peers/cublaslt_peer.hpp"
#include "timing.hpp"

namespace bench {
namespace {

constexpr double kWarmSeconds = 0.2;

std::unique_ptr<Contestant> make(Network& network, const std::string& name, double budget_s) {
  if (name == "ours") return std::make_unique<Ours>(network, budget_s);
  if (name == "cublaslt_fast") return make_cublaslt_peer(network, PeerKind::Fast);
  return make_cublaslt_peer(network, PeerKind::Same);
}

}  // namespace

const std::vector<std::string>& contestant_names() {
  static const std::vector<std::string> names = {"ours", "cublaslt_fast", "cublaslt_same"};
  return names;
}

Session::Session() {
  // Also for synchronise calls: what is measured is latency.
  (void)cudaSetDeviceFlags(cudaDeviceScheduleSpin);
  (void)cudaGetLastError();
  if (const ai::Status status = ai::target_available(ai::Target::CUDA); !status.ok()) {
    throw Absent(status.to_string());
  }
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  load_libraries();
}

Session::~Session() {
  release();
  idle_.reset();
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

Prepared Session::prepare(const Row& row, const std::string& name, double budget_s) {
  const auto& names = contestant_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw Failed("contestant is '" + name + "', expected ours, cublaslt_fast or cublaslt_same");
  }
  contestants_.erase(name);
  if (!network_ || network_->row() != row) {
    release();
    network_.emplace(row);
  }
  Prepared prepared;
  try {
    std::unique_ptr<Contestant> contestant = make(*network_, name, budget_s);
    const Checked checked = check_launch(*contestant, &Contestant::launch);
    prepared.nodes = contestant->nodes();
    prepared.workspace_bytes = contestant->workspace_bytes();
    prepared.variant = contestant->variant();
    if (const auto* ours = dynamic_cast<const Ours*>(contestant.get())) {
      prepared.starts = ours->starts();
    }
    prepared.error_ratio = checked.error_ratio;
    prepared.checked = checked.count;
    prepared.ok = checked.good();
    if (!prepared.ok) prepared.error = "wrong result: " + checked.worst;
    if (prepared.ok) contestants_[name] = {std::move(contestant), {}};
  } catch (const Absent& absent) {
    prepared.absent = true;
    prepared.error = absent.what();
  } catch (const std::exception& failed) {
    prepared.error = failed.what();
  }
  return prepared;
}

Checked Session::check_launch(Contestant& contestant, void (Contestant::*launch)(cudaStream_t)) {
  contestant.network().reset();
  (contestant.*launch)(stream_);
  check(cudaStreamSynchronize(stream_), "a launch to be checked");
  return check_network(download(contestant.network()), contestant.writes_z(),
                       contestant.activation_error());
}

Session::Ready& Session::ready(const std::string& name) {
  const auto found = contestants_.find(name);
  if (found == contestants_.end()) throw Failed("contestant '" + name + "' is not prepared");
  return found->second;
}

std::vector<double> Session::measure(const std::string& name, What what, double seconds) {
  Ready& of = ready(name);
  if (what == What::Slope) {
    of.long_graph.demand(network_->row().mode, [&] {
      of.contestant->launch_many(stream_);  // makes the graph, and may run its steps to tune them
      check(cudaStreamSynchronize(stream_), "the first long graph");
      const Checked checked = check_launch(*of.contestant, &Contestant::launch_many);
      warm(kWarmSeconds);  // the GPU had nothing to do while the host checked
      return checked;
    });
  }
  return bench::measure(*of.contestant, what, seconds, stream_);
}

void Session::warm(double seconds) {
  if (!contestants_.empty()) {
    Contestant& any = *contestants_.begin()->second.contestant;
    warm_up(
        stream_, [&](cudaStream_t on) { any.launch(on); }, seconds);
    return;
  }
  if (!idle_) {
    idle_.emplace(Row{"idle", {1024, 1024}, ai::ActKind::None, 1, Mode::Forward});
    idle_->reset();
  }
  const Matrix& w = idle_->layers().front().w;
  warm_up(
      stream_, [&](cudaStream_t on) { enqueue_fill(w, 0, 1.0F, on); }, seconds);
}

}  // namespace bench
