#include "ours.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include "timing.hpp"

namespace bench {
namespace {

void check(const ai::Status& status, const std::string& what) {
  if (!status.ok()) throw Failed(what + ": " + status.to_string());
}
template <typename T>
T value_of(ai::Result<T> result, const std::string& what) {
  check(result.status(), what);
  return std::move(*result);
}

ai::Tensor tensor(const Matrix& matrix) {
  return ai::make_tensor_2d(matrix.data, {matrix.rows, matrix.cols});
}

// An empty node behind everything on `stream`, which is being captured.
void enqueue_nothing(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* before = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  bench::check(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &before, &edges, &count),
               "cudaStreamGetCaptureInfo");
  cudaGraphNode_t node = nullptr;
  bench::check(cudaGraphAddEmptyNode(&node, graph, before, count), "cudaGraphAddEmptyNode");
  bench::check(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1,
                                                   cudaStreamSetCaptureDependencies),
               "cudaStreamUpdateCaptureDependencies");
}

class Builder {
 public:
  explicit Builder(const Network& network) : network_(network) {}

  ai::Program build(int copies) {
    for (int copy = 0; copy < copies; ++copy) {
      if (copy > 0) add_barrier();
      const Row& row = network_.row();
      for (int l = 0; l < row.depth(); ++l) add_forward(l);
      if (row.mode == Mode::TrainStep) add_loss();
      for (int l = row.depth() - 1; row.has_backward() && l >= 0; --l) add_backward(l);
      if (row.mode == Mode::TrainStep) add_sgd();
    }
    return std::move(program_);
  }

 private:
  const Network::Layer& layer(int l) const {
    return network_.layers()[static_cast<std::size_t>(l)];
  }

  void add_forward(int l) {
    const ai::ActKind act = network_.row().activation_of(l);
    ai::GemmForward call;
    call.A = tensor(network_.input_of(l));
    call.B = tensor(layer(l).w);
    call.bias = tensor(layer(l).b);
    call.Y = tensor(layer(l).y);
    call.attrs.act = act;
    if (network_.row().has_backward() && act != ai::ActKind::None) {
      call.Z = tensor(layer(l).z);
      call.attrs.save_z = true;
    }
    const std::string what = "forward of layer " + std::to_string(l);
    check(program_.add(value_of(ai::plan_forward(call), what)), what);
  }

  void add_backward(int l) {
    ai::GemmBackward call;
    call.A = tensor(network_.input_of(l));
    call.B = tensor(layer(l).w);
    call.gY = tensor(layer(l).gy);
    call.attrs.act = network_.row().activation_of(l);
    if (call.attrs.act != ai::ActKind::None) call.Z = tensor(layer(l).z);
    if (l > 0) call.gA = ai::Gradient(tensor(layer(l - 1).gy));
    call.gB = ai::Gradient(tensor(layer(l).gw));
    call.gBias = ai::Gradient(tensor(layer(l).gb));
    const std::string what = "backward of layer " + std::to_string(l);
    check(program_.add(value_of(ai::plan_backward(call), what)), what);
  }

  void add_loss() {
    const Matrix y = network_.layers().back().y;
    const Matrix gy = network_.layers().back().gy;
    const Matrix target = network_.target();
    ai::UserStep step;
    step.name = "loss";
    step.reads = {tensor(y), tensor(target)};
    step.writes = {tensor(gy)};
    step.cuda = [=](const ai::StepContext& context) {
      enqueue_loss_gradient(y, target, gy, context.stream);
      return ai::Status();
    };
    check(program_.add(std::move(step)), "step 'loss'");
  }

  void add_sgd() {
    ai::UserStep step;
    step.name = "sgd";
    for (const Network::Layer& each : network_.layers()) {
      for (const Matrix& matrix : {each.gw, each.gb, each.w, each.b}) {
        step.reads.push_back(tensor(matrix));
      }
      for (const Matrix& matrix : {each.w, each.b}) step.writes.push_back(tensor(matrix));
    }
    step.cuda = [layers = network_.layers()](const ai::StepContext& context) {
      enqueue_sgd(layers, context.stream);
      return ai::Status();
    };
    check(program_.add(std::move(step)), "step 'sgd'");
  }

  // The next copy waits for all of this one, as one replay does for another.
  void add_barrier() {
    ai::UserStep step;
    step.name = "barrier";
    step.reads = {tensor(network_.layers().back().y)};
    for (const Network::Layer& each : network_.layers()) {
      if (!network_.row().has_backward()) break;
      step.reads.push_back(tensor(each.gw));
      step.reads.push_back(tensor(each.gb));
    }
    step.writes = {tensor(network_.x())};
    step.cuda = [](const ai::StepContext& context) {
      enqueue_nothing(context.stream);
      return ai::Status();
    };
    check(program_.add(std::move(step)), "step 'barrier'");
  }

  const Network& network_;
  ai::Program program_;
};

std::filesystem::path make_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "bench_suite-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) throw Failed("mkdtemp failed for " + path);
  return path;
}

/// "3 lanes" of "3 lanes 19.90 us, unlimited 20.31 us" or "3 lanes (from ...)".
std::string order_of(std::string_view line) {
  constexpr std::string_view kFree = "as the data flow allows";
  if (line.substr(0, kFree.size()) == kFree) return std::string(kFree);
  std::size_t end = line.find_first_of(" \n");
  if (!line.empty() && line.front() >= '0' && line.front() <= '9') {
    end = line.find_first_of(" \n", end == line.npos ? end : end + 1);
  }
  return std::string(line.substr(0, end));
}

}  // namespace

Ours::Ours(Network& network, double budget_s)
    : network_(network), budget_s_(budget_s), folder_(make_folder()) {
  Startable startable;
  startable.release = [&] { once_.reset(); };
  startable.start = [&](const std::string& file) -> StartReport {
    once_ = capture(1, file);
    return {once_->tuning().candidates_timed, once_->tuning().heuristic_queries};
  };
  startable.now_ms = [] {
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  try {
    starts_ = time_starts(startable, folder_);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    throw;
  }
}

Ours::~Ours() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

ai::Executable Ours::capture(int copies, const std::string& file) const {
  const ai::Program program = Builder(network_).build(copies);
  ai::CaptureOptions options;
  options.target = ai::Target::CUDA;
  options.tuning_budget_s = budget_s_;
  options.tuning_cache = file;
  options.on_tuning_warning = [](const ai::Status& status) {
    std::fprintf(stderr, "ours: %s\n", status.to_string().c_str());
  };
  return value_of(ai::capture(program, options), "capture");
}

void Ours::launch(cudaStream_t stream) {
  if (const ai::Status status = once_->launch(stream); !status.ok()) check(status, "launch");
}

void Ours::launch_many(cudaStream_t stream) {
  if (!many_) many_ = capture(kManyCopies, folder_ / "tuning.json");
  if (const ai::Status status = many_->launch(stream); !status.ok()) check(status, "launch");
}

int Ours::nodes() const {
  return static_cast<int>(once_->nodes().size());
}

std::size_t Ours::workspace_bytes() const {
  return once_->workspace_bytes();
}

std::string Ours::variant() const {
  // explain() marks the candidate that was chosen with a star.
  const std::string_view text = once_->explain();
  constexpr std::string_view kMark = "\n  * ";
  std::string names;
  for (std::size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, at)) {
    at += kMark.size();
    const std::string_view name = text.substr(at, text.find_first_of(" \n", at) - at);
    names += (names.empty() ? "" : " | ") + std::string(name);
  }
  // Its last line, but of a chain, tells the order of the steps.
  constexpr std::string_view kOrder = "\norder: ";
  if (const std::size_t order = text.rfind(kOrder); order != text.npos) {
    names += " | order " + order_of(text.substr(order + kOrder.size()));
  }
  return names;
}

void load_libraries() {
  Row row{"first", {8, 8, 8}, ai::ActKind::Tanh, 8, Mode::TrainStep};
  Network network(row);
  const ai::Program program = Builder(network).build(1);
  ai::CaptureOptions options;
  options.tuning = ai::Tuning::Off;
  ai::Executable executable = value_of(ai::capture(program, options), "capture");
  check(executable.launch(nullptr), "launch");
  check(executable.wait(), "wait");
}

}  // namespace bench
