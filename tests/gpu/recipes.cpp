// Candidates that are made again from their recipes, by the real cuBLASLt.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ai/kernels/backend_factory.hpp"
#include "layer.hpp"

namespace {

using ai::Candidate;
using ai::RecalledCandidate;
using ai::Task;

/// Device memory for whatever scratch the steps of one candidate book.
class Arena {
 public:
  Arena() { REQUIRE(cudaMalloc(&data_, kBytes) == cudaSuccess); }
  ~Arena() { (void)cudaFree(data_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  ai::AddressMap map_of(const std::vector<std::shared_ptr<ai::Step>>& steps) {
    ai::AddressMap addresses;
    std::size_t used = 0;
    for (const auto& step : steps) {
      for (const ai::MemoryRange& range : step->writes()) {
        const auto* at = reinterpret_cast<const void*>(range.begin);
        if (!ai::symbolic::is_symbolic(at) || addresses(at) != at) continue;
        const std::size_t bytes = range.end() - range.begin;
        REQUIRE(used + bytes <= kBytes);
        addresses.add(range.begin, bytes, static_cast<char*>(data_) + used);
        used += (bytes + 255) / 256 * 256;
      }
    }
    return addresses;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{80} << 20;
  void* data_ = nullptr;
};

/// One layer forward or backward over small integers, so that every way to it gives the same bits.
struct Problem {
  std::string name;
  int m, n, k;
  ai::ActKind act = ai::ActKind::None;
  bool with_bias = false;
  bool with_z = false;
  bool backward = false;
};

const std::vector<Problem> kProblems = {
    {"[1,64] [64,256]", 1, 256, 64},
    {"[5,6] [6,13]", 5, 13, 6},
    {"[64,256] [256,256] ReLU bias", 64, 256, 256, ai::ActKind::ReLU, true},
    {"[16,128] [128,128] ReLU bias Z", 16, 128, 128, ai::ActKind::ReLU, true, true},
    {"[256,1024] [1024,512] bias", 256, 512, 1024, ai::ActKind::None, true},
    {"[64,256] [256,256] ReLU backward", 64, 256, 256, ai::ActKind::ReLU, true, true, true},
    {"[1,1024] [1024,1024] backward", 1, 1024, 1024, ai::ActKind::None, false, false, true}};

class Fixture {
 public:
  explicit Fixture(const Problem& p) : p_(p) {
    const auto make = [&](int rows, int cols) {
      std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
      for (float& value : values) value = static_cast<float>(static_cast<int>(random_() % 5) - 2);
      buffers_.push_back(gpu::device_buffer(values));
      return ai::make_tensor_2d(buffers_.back(), {rows, cols});
    };
    const ai::Tensor a = make(p.m, p.k), b = make(p.k, p.n), bias = make(1, p.n);
    const ai::Tensor y = make(p.m, p.n), z = make(p.m, p.n);
    ai::Result<ai::GemmPlan> plan = ai::Status();
    if (!p.backward) {
      ai::GemmForward call = {.A = a, .B = b, .Y = y, .attrs = {.act = p.act}};
      outputs_ = {y};
      if (p.with_bias) call.bias = bias;
      if (p.with_z) {
        call.Z = z;
        outputs_.push_back(z);
      }
      plan = ai::plan_forward(call);
    } else {
      const ai::Tensor ga = make(p.m, p.k), gb = make(p.k, p.n);
      ai::GemmBackward call = {.A = a, .B = b, .gY = y, .gA = ga, .gB = gb};
      call.attrs.act = p.act;
      outputs_ = {ga, gb};
      if (p.with_z) call.Z = z;
      if (p.with_bias) {
        call.gBias = bias;
        outputs_.push_back(bias);
      }
      plan = ai::plan_backward(call);
    }
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    plan_.emplace(*plan);
  }
  ~Fixture() {
    for (float* data : buffers_) (void)cudaFree(data);
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  /// Through a backend that knows nothing of earlier ones.
  [[nodiscard]] std::vector<Task> lower(const ai::Recall& recall = {}) const {
    auto tasks = ai::kernels::make_cuda_backend(0)->lower({&*plan_, 1}, recall);
    REQUIRE_MESSAGE(tasks.ok(), tasks.status().to_string());
    return *std::move(tasks);
  }

  /// What all outputs hold after the steps have run one after the other; nullopt where one cannot
  /// be prepared.
  std::optional<std::vector<float>> run(const std::vector<std::shared_ptr<ai::Step>>& steps) {
    for (const auto& step : steps) {
      if (!step->prepare().ok()) return std::nullopt;
    }
    for (const ai::Tensor& tensor : outputs_) {
      REQUIRE(cudaMemset(tensor.data, 0xFF, bytes_of(tensor)) == cudaSuccess);
    }
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    const ai::AddressMap addresses = arena_.map_of(steps);
    for (const auto& step : steps) {
      const ai::Status status = step->enqueue(addresses, stream_.get());
      REQUIRE_MESSAGE(status.ok(), status.to_string());
    }
    REQUIRE(cudaStreamSynchronize(stream_.get()) == cudaSuccess);
    std::vector<float> all;
    for (const ai::Tensor& tensor : outputs_) {
      const std::vector<float> some =
          gpu::download(static_cast<const float*>(tensor.data), bytes_of(tensor) / sizeof(float));
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

 private:
  static std::size_t bytes_of(const ai::Tensor& tensor) {
    return static_cast<std::size_t>(tensor.desc.shape[0] * tensor.desc.shape[1]) * sizeof(float);
  }

  Problem p_;
  std::minstd_rand random_{7};
  std::vector<float*> buffers_;
  std::vector<ai::Tensor> outputs_;
  std::optional<ai::GemmPlan> plan_;
  Arena arena_;
  gpu::OwnStream stream_;
};

/// The steps of each task's fallback, but of `candidate` where its task is at hand.
std::vector<std::shared_ptr<ai::Step>> steps_of(const std::vector<Task>& tasks, std::size_t at,
                                                const Candidate& candidate) {
  std::vector<std::shared_ptr<ai::Step>> steps;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Candidate& taken = i == at ? candidate : tasks[i].candidates.back();
    steps.insert(steps.end(), taken.steps.begin(), taken.steps.end());
  }
  return steps;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("every candidate that can be run is recalled by its recipe and gives the same bits") {
  for (const Problem& problem : kProblems) {
    CAPTURE(problem.name);
    Fixture f(problem);
    const std::vector<Task> searched = f.lower();
    std::size_t compared = 0;
    for (std::size_t at = 0; at < searched.size(); ++at) {
      for (const Candidate& candidate : searched[at].candidates) {
        if (candidate.recipe.empty()) continue;
        CAPTURE(searched[at].name);
        CAPTURE(candidate.name);
        CAPTURE(candidate.recipe);
        const auto wanted = f.run(steps_of(searched, at, candidate));
        if (!wanted) continue;
        const RecalledCandidate known = {candidate.name, candidate.recipe};
        const std::vector<Task> tasks =
            f.lower([&](std::size_t task) { return task == at ? &known : nullptr; });
        REQUIRE(tasks.size() == searched.size());
        CHECK(tasks[at].recalled);
        CHECK(tasks[at].queries == 0);
        if (!tasks[at].recalled) continue;
        CHECK(tasks[at].candidates.back().recipe == candidate.recipe);
        const auto got = f.run(steps_of(tasks, at, tasks[at].candidates.back()));
        REQUIRE(got.has_value());
        CHECK(same_bits(*got, *wanted));
        ++compared;
      }
    }
    MESSAGE(problem.name << ": " << compared << " candidates recalled");
    CHECK(compared > 0);
  }
}

TEST_CASE("a recipe of another problem is passed over, or cannot be prepared, or is right") {
  std::vector<RecalledCandidate> foreign;
  for (const Problem& problem : kProblems) {
    if (problem.backward) continue;
    const std::vector<Task> tasks = Fixture(problem).lower();
    for (const Candidate& candidate : tasks[0].candidates) {
      if (!candidate.recipe.empty()) foreign.push_back({candidate.name, candidate.recipe});
    }
  }
  for (const Problem& problem : kProblems) {
    if (problem.backward) continue;
    CAPTURE(problem.name);
    Fixture f(problem);
    const std::vector<Task> own = f.lower();
    const auto wanted = f.run(steps_of(own, 0, own[0].candidates.back()));
    REQUIRE(wanted.has_value());
    for (const RecalledCandidate& known : foreign) {
      CAPTURE(known.name);
      CAPTURE(known.recipe);
      const std::vector<Task> tasks = f.lower([&](std::size_t) { return &known; });
      if (!tasks[0].recalled) continue;
      const auto got = f.run(tasks[0].candidates.back().steps);
      if (got) CHECK(same_bits(*got, *wanted));
    }
  }
}
