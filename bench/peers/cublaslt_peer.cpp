#include "peers/cublaslt_peer.hpp"

#include <optional>
#include <string>

#include "peers/lt_tuning.hpp"
#include "peers/peer_plan.hpp"
#include "peers/peer_step.hpp"
#include "peers/recorded_graph.hpp"
#include "peers/step_search.hpp"
#include "timing.hpp"

namespace bench {
namespace {

class CublasLtPeer final : public Contestant {
 public:
  CublasLtPeer(Network& network, PeerKind kind) : network_(network), kind_(kind), step_(network) {
    network_.reset();
    check(cudaDeviceSynchronize(), "the network's data");
    {
      LtTuner tuner(step_.stream());
      step_.set_options(plan_peer(network_, kind, tuner, step_.workspace(), step_.stream()));
    }
    choice_ = search(step_, network_.row());
    if (kind == PeerKind::Same && network_.row().has_backward() && !writes_z()) {
      throw Failed("cublaslt_same keeps no Z: " + variant());
    }
    one_.emplace(step_.stream(), [&] { step_.enqueue(choice_); });
    check(cudaStreamSynchronize(step_.stream()), "the peer's step");
    network_.reset();
    check(cudaDeviceSynchronize(), "the network's data");
  }

  void launch(cudaStream_t stream) override { one_->launch(stream); }

  void launch_many(cudaStream_t stream) override {
    if (!many_) {
      many_.emplace(step_.stream(), [&] {
        for (int copy = 0; copy < kManyCopies; ++copy) step_.enqueue(choice_);
      });
      check(cudaStreamSynchronize(step_.stream()), "upload of the long graph");
    }
    many_->launch(stream);
  }

  Network& network() override { return network_; }
  int nodes() const override { return one_->nodes(); }
  std::size_t workspace_bytes() const override { return step_.workspace_bytes(choice_); }

  std::string variant() const override {
    std::string text;
    for (int l = 0; l < network_.row().depth(); ++l) {
      text += (text.empty() ? "" : " | ") + step_.chosen(choice_, l).label();
    }
    if (choice_.branches > 0) text += " | branches " + std::to_string(choice_.branches + 1);
    return text;
  }

  // cuBLASLt's GELU is the tanh form to within 5e-6 (measured on an H200).
  double activation_error() const override {
    const bool is_fused_gelu =
        kind_ == PeerKind::Fast && network_.row().activation == ai::ActKind::GELUTanh;
    return is_fused_gelu ? 1e-5 : 0.0;
  }

  bool writes_z() const override {
    for (int l = 0; l < network_.row().depth(); ++l) {
      const bool has_activation = network_.row().activation_of(l) != ai::ActKind::None;
      if (has_activation && !step_.chosen(choice_, l).saves_z) return false;
    }
    return true;
  }

 private:
  Network& network_;
  PeerKind kind_;
  PeerStep step_;
  StepChoice choice_;
  std::optional<RecordedGraph> one_;
  std::optional<RecordedGraph> many_;
};

}  // namespace

std::unique_ptr<Contestant> make_cublaslt_peer(Network& network, PeerKind kind) {
  return std::make_unique<CublasLtPeer>(network, kind);
}

}  // namespace bench
