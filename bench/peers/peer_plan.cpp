#include "peers/peer_plan.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "contestant.hpp"
#include "peers/device_memory.hpp"
#include "peers/elementwise.hpp"
#include "peers/lt_demands.hpp"
#include "peers/peer_problems.hpp"
#include "timing.hpp"

namespace bench {
namespace {

using ai::ActKind;

/// What the forward of a layer leaves for act'.
enum class Saved { Nothing, Mask, Y, Z };

struct Forward {
  std::string name;
  PeerOps ops;
  Saved saved = Saved::Nothing;
  std::shared_ptr<DeviceBuffer> mask;
};
struct GradientOps {
  std::string name;
  PeerOps ops;
  bool has_gb = false;
};
struct WeightOps {
  std::string name;
  PeerOps ops;
};

/// One bit for each element, rows of a multiple of 128 bits.
std::int64_t mask_ld(int cols) {
  return (std::int64_t{cols} + 127) / 128 * 128;
}

bool act_is_function_of_y(ActKind act) {
  return act == ActKind::ReLU || act == ActKind::Tanh || act == ActKind::ELU;
}

class Planner {
 public:
  Planner(const Network& network, PeerKind kind, LtTuner& tuner, void* workspace,
          cudaStream_t stream)
      : network_(network), kind_(kind), tuner_(tuner), workspace_(workspace), stream_(stream) {}

  std::vector<std::vector<LayerOption>> plan() {
    const int depth = row().depth();
    for (int l = 0; l < depth; ++l) {
      forwards_.push_back(forwards(l));
      if (forwards_.back().empty()) nothing_for(l);
      run(forwards_.back().front().ops);  // the GEMMs of the next layer are timed on its result
    }
    if (row().mode == Mode::TrainStep) {
      const Network::Layer& last = network_.layers().back();
      enqueue_loss_gradient(last.y, network_.target(), last.gy, stream_);
    }
    std::vector<std::vector<LayerOption>> options(forwards_.size());
    for (int l = depth - 1; l >= 0; --l) {
      options[static_cast<std::size_t>(l)] = row().has_backward() ? with_backward(l) : inference(l);
      if (options[static_cast<std::size_t>(l)].empty()) nothing_for(l);
    }
    return options;
  }

 private:
  const Row& row() const { return network_.row(); }
  const Network::Layer& layer(int l) const {
    return network_.layers()[static_cast<std::size_t>(l)];
  }

  [[noreturn]] void nothing_for(int l) const {
    throw Absent("cuBLASLt offers no algorithm for layer " + std::to_string(l));
  }

  void run(const PeerOps& ops) const {
    for (const PeerOp& op : ops) op.enqueue(workspace_, stream_);
    check(cudaStreamSynchronize(stream_), "a layer of the peer");
  }

  // --- operations ---

  std::optional<PeerOp> gemm(const GemmProblem& problem, const Demand* demand = nullptr,
                             const std::shared_ptr<DeviceBuffer>& kept = nullptr) {
    const auto made = std::make_shared<LtGemm>(problem);
    const std::vector<LtAlgorithm> algorithms = tuner_.quickest(*made, demand);
    std::optional<PeerOp> op;
    for (auto chosen = algorithms.rbegin(); chosen != algorithms.rend(); ++chosen) {
      PeerOp one{std::string(name_of(problem.epilogue)) + "#" + std::to_string(chosen->answer),
                 [made, kept, algorithm = *chosen](void* workspace, cudaStream_t stream) {
                   made->enqueue(algorithm, workspace, stream);
                 },
                 chosen->workspace_bytes};
      if (op) one.runner_up = std::make_shared<const PeerOp>(std::move(*op));
      op = std::move(one);
    }
    return op;
  }

  PeerOp activate(ActKind act, const Matrix& z, const Matrix& y) const {
    return {ai::to_string(act),
            [=](void*, cudaStream_t stream) { enqueue_activation(act, z, y, stream); }};
  }

  // --- forward ---

  std::vector<Forward> forwards(int l) {
    const ActKind act = row().activation_of(l);
    const bool same = kind_ == PeerKind::Same;
    std::vector<Forward> ways;
    if (act == ActKind::None) {
      add(ways, {"BIAS", {}, Saved::Nothing, nullptr},
          gemm(product(network_, l, CUBLASLT_EPILOGUE_BIAS, layer(l).y)));
    } else if (!row().has_backward()) {
      // cuBLASLt's GELU is not exactly ours: `same` does without.
      if (!same || act == ActKind::ReLU) {
        add_fused(ways, l, act, same ? &keeps_special_values() : nullptr, Saved::Nothing);
      }
      add_separate(ways, l, act, Saved::Nothing);
    } else if (same) {
      add_separate(ways, l, act, Saved::Z);
    } else if (act == ActKind::ReLU) {
      add_relu_mask(ways, l);
      add_fused(ways, l, act, nullptr, Saved::Y);
      add_separate(ways, l, act, Saved::Y);
    } else {
      if (act == ActKind::GELUTanh) add_gelu_aux(ways, l);
      add_separate(ways, l, act, act_is_function_of_y(act) ? Saved::Y : Saved::Z);
    }
    return ways;
  }

  static void add(std::vector<Forward>& ways, Forward way, std::optional<PeerOp> op,
                  std::optional<PeerOp> then = std::nullopt) {
    if (!op) return;
    way.ops.push_back(std::move(*op));
    if (then) way.ops.push_back(std::move(*then));
    ways.push_back(std::move(way));
  }

  void add_fused(std::vector<Forward>& ways, int l, ActKind act, const Demand* demand,
                 Saved saved) {
    if (act != ActKind::ReLU && act != ActKind::GELUTanh) return;
    const auto epilogue =
        act == ActKind::ReLU ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS;
    add(ways, {name_of(epilogue), {}, saved, nullptr},
        gemm(product(network_, l, epilogue, layer(l).y), demand));
  }

  void add_separate(std::vector<Forward>& ways, int l, ActKind act, Saved saved) {
    const Matrix& z = saved == Saved::Z ? layer(l).z : layer(l).y;
    add(ways, {"BIAS, kernel", {}, saved, nullptr},
        gemm(product(network_, l, CUBLASLT_EPILOGUE_BIAS, z)), activate(act, z, layer(l).y));
  }

  void add_relu_mask(std::vector<Forward>& ways, int l) {
    const std::int64_t ld = mask_ld(layer(l).y.cols);
    const auto mask = std::make_shared<DeviceBuffer>(static_cast<std::size_t>(ld) / 8 *
                                                     static_cast<std::size_t>(row().batch));
    GemmProblem problem = product(network_, l, CUBLASLT_EPILOGUE_RELU_AUX_BIAS, layer(l).y);
    problem.aux = mask->as<void>();
    problem.aux_ld = ld;
    add(ways, {"RELU_AUX_BIAS", {}, Saved::Mask, mask}, gemm(problem, nullptr, mask));
  }

  void add_gelu_aux(std::vector<Forward>& ways, int l) {
    GemmProblem problem = product(network_, l, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, layer(l).y);
    problem.aux = layer(l).z.data;
    problem.aux_ld = layer(l).z.cols;
    add(ways, {"GELU_AUX_BIAS", {}, Saved::Z, nullptr}, gemm(problem));
  }

  // --- backward ---

  std::vector<GradientOps> gradients(int l, const Forward& forward) {
    if (l + 1 == row().depth()) return {{}};
    const Network::Layer& here = layer(l);
    const ActKind act = row().activation_of(l);
    std::vector<GradientOps> ways;
    if (act == ActKind::None) {
      if (auto op = gemm(data_gradient(network_, l, CUBLASLT_EPILOGUE_DEFAULT, here.gz))) {
        ways.push_back({"plain", {std::move(*op)}});
      }
      return ways;
    }
    if (kind_ == PeerKind::Fast && (forward.saved == Saved::Mask || act == ActKind::GELUTanh)) {
      const bool relu = forward.saved == Saved::Mask;
      const auto epilogue = relu ? CUBLASLT_EPILOGUE_DRELU_BGRAD : CUBLASLT_EPILOGUE_DGELU_BGRAD;
      GemmProblem problem = data_gradient(network_, l, epilogue, here.gz);
      problem.bias = here.gb.data;
      problem.aux = relu ? forward.mask->as<void>() : here.z.data;
      problem.aux_ld = relu ? mask_ld(here.y.cols) : here.z.cols;
      if (auto op = gemm(problem, nullptr, forward.mask)) {
        ways.push_back({name_of(epilogue), {std::move(*op)}, true});
      }
    }
    if (forward.saved == Saved::Mask) return ways;

    const Matrix gy = kind_ == PeerKind::Same ? here.gy : here.gz;
    const auto plain = gemm(data_gradient(network_, l, CUBLASLT_EPILOGUE_DEFAULT, gy));
    if (!plain) return ways;
    const Source source = forward.saved == Saved::Z ? Source::Z : Source::Y;
    const Matrix saved = source == Source::Z ? here.z : here.y;
    const std::string name = std::string(ai::to_string(act)) + "'";
    const auto sum = std::make_shared<ColumnSum>(gy.rows, gy.cols);
    PeerOp kernel_with_sum{name + "+gb", [=, gz = here.gz, gb = here.gb](void*, cudaStream_t on) {
                             sum->enqueue_with_gradient(act, source, saved, gy, gz, gb, on);
                           }};
    PeerOp kernel{name, [=, gz = here.gz](void*, cudaStream_t on) {
                    enqueue_activation_gradient(act, source, saved, gy, gz, on);
                  }};
    ways.push_back({"kernel with gb", {*plain, std::move(kernel_with_sum)}, true});
    ways.push_back({"kernel", {*plain, std::move(kernel)}, false});
    return ways;
  }

  std::vector<WeightOps> weights(int l, bool has_gb) {
    const auto plain = gemm(weight_gradient(network_, l, CUBLASLT_EPILOGUE_DEFAULT));
    std::vector<WeightOps> ways;
    if (!has_gb) {
      GemmProblem problem = weight_gradient(network_, l, CUBLASLT_EPILOGUE_BGRADA);
      problem.bias = layer(l).gb.data;
      if (auto op = gemm(problem, &sums_columns())) ways.push_back({"BGRADA", {std::move(*op)}});
    }
    if (!plain) return ways;
    ways.push_back({"gW", {*plain}});
    if (has_gb) return ways;
    const Matrix gz = gz_of(network_, l);
    const auto sum = std::make_shared<ColumnSum>(gz.rows, gz.cols);
    ways.back().name = "gW, gb";
    ways.back().ops.push_back(
        {"gb", [=, gb = layer(l).gb](void*, cudaStream_t on) { sum->enqueue(gz, gb, on); }});
    return ways;
  }

  // --- both ---

  std::vector<LayerOption> inference(int l) const {
    std::vector<LayerOption> options;
    for (const Forward& forward : forwards_[static_cast<std::size_t>(l)]) {
      options.push_back({forward.name, forward.ops, {}, {}, false});
    }
    return options;
  }

  std::vector<LayerOption> with_backward(int l) {
    std::vector<LayerOption> options;
    for (const Forward& forward : forwards_[static_cast<std::size_t>(l)]) {
      for (const GradientOps& gradient : gradients(l, forward)) {
        if (options.empty()) run(gradient.ops);  // the GEMMs below are timed on its result
        for (const WeightOps& weight : weights(l, gradient.has_gb)) {
          options.push_back({forward.name + "; " + gradient.name + "; " + weight.name, forward.ops,
                             gradient.ops, weight.ops, forward.saved == Saved::Z});
        }
      }
    }
    return options;
  }

  const Network& network_;
  const PeerKind kind_;
  LtTuner& tuner_;
  void* const workspace_;
  const cudaStream_t stream_;
  std::vector<std::vector<Forward>> forwards_;
};

}  // namespace

std::vector<std::vector<LayerOption>> plan_peer(const Network& network, PeerKind kind,
                                                LtTuner& tuner, void* workspace,
                                                cudaStream_t stream) {
  return Planner(network, kind, tuner, workspace, stream).plan();
}

}  // namespace bench
