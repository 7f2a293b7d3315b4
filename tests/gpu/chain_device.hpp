#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ai/ai.hpp"
#include "chain_network.hpp"
#include "chain_oracle.hpp"
#include "support/check_case.hpp"

/// Networks on the GPU: operands, capture, replay, and whether one node carries all of it out.
namespace gpu {

inline void require_done(cudaError_t error, const char* what) {
  REQUIRE_MESSAGE(error == cudaSuccess, what << ": " << cudaGetErrorString(error));
}
inline void require_good(const ai::Status& status) {
  REQUIRE_MESSAGE(status.ok(), status.to_string());
}

/// One block of device memory with a place for each buffer of a network, guards and padding
/// included. Networks of one layout have their buffers at the same distances.
class Arena {
 public:
  explicit Arena(ChainNetwork& network) {
    constexpr std::size_t kAlignment = 256;
    network.for_each([&](const char*, support::Buffer& buffer, bool) {
      places_[&buffer] = bytes_;
      bytes_ += (buffer.raw_bytes() + kAlignment - 1) / kAlignment * kAlignment;
    });
    require_done(cudaMalloc(&data_, bytes_), "memory for a network");
    require_done(cudaMemset(data_, 0, bytes_), "clearing it");
  }
  ~Arena() { (void)cudaFree(data_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// All values of `network`, the one that this was made for; there when it returns.
  void upload(ChainNetwork& network) {
    transfer(network, cudaMemcpyHostToDevice);
    require_done(cudaStreamSynchronize(nullptr), "copies to the device");
  }
  void download(ChainNetwork& network) { transfer(network, cudaMemcpyDeviceToHost); }

  [[nodiscard]] ai::Tensor tensor(const support::Buffer& buffer) const {
    return buffer.tensor(data_ + places_.at(&buffer), ai::Device::CUDA, 0);
  }
  /// The address of a buffer's first element.
  [[nodiscard]] void* at(const support::Buffer& buffer) const { return tensor(buffer).data; }
  [[nodiscard]] unsigned* words() const { return reinterpret_cast<unsigned*>(data_); }
  [[nodiscard]] std::size_t count() const { return bytes_ / sizeof(unsigned); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Everything that lies here moves to `other`.
  [[nodiscard]] ai::Rebinding to(const Arena& other) const { return {data_, other.data_, bytes_}; }

 private:
  void transfer(ChainNetwork& network, cudaMemcpyKind kind) {
    network.for_each([&](const char* name, support::Buffer& buffer, bool) {
      void* const host = buffer.raw().data();
      void* const copy = data_ + places_.at(&buffer);
      const bool up = kind == cudaMemcpyHostToDevice;
      require_done(cudaMemcpy(up ? copy : host, up ? host : copy, buffer.raw_bytes(), kind), name);
    });
  }

  std::map<const support::Buffer*, std::size_t> places_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Adds layers [first, last) of `network` over the memory of `arena`; hidden Ys get temporaries,
/// which `temporaries` keeps from call to call.
class ChainBuilder {
 public:
  ChainBuilder(const ChainNetwork& network, const Arena& arena)
      : network_(network), arena_(arena) {}
  void add(ai::Program& program, std::size_t first, std::size_t last) {
    for (std::size_t l = first; l < last; ++l) {
      const support::Buffer& y = network_.layers[l].y;
      if (network_.spec.layers[l].is_hidden) {
        ai::TensorDesc packed;
        packed.shape = y.tensor().desc.shape;
        const auto made = program.temporary(packed);
        require_good(made.status());
        temporaries_.emplace(&y, *made);
      }
      const auto plan = ai::plan_forward(network_.call(l, [&](const support::Buffer& buffer) {
        const auto found = temporaries_.find(&buffer);
        return found == temporaries_.end() ? arena_.tensor(buffer) : found->second;
      }));
      require_good(plan.status());
      require_good(program.add(*plan));
    }
  }

 private:
  const ChainNetwork& network_;
  const Arena& arena_;
  std::map<const support::Buffer*, ai::Tensor> temporaries_;
};

[[nodiscard]] inline ai::Program program_of(const ChainNetwork& network, const Arena& arena) {
  ai::Program program;
  ChainBuilder(network, arena).add(program, 0, network.depth());
  return program;
}

/// Measured anew, and kept nowhere unless `file` names a tuning file.
[[nodiscard]] inline ai::CaptureOptions measured(double budget_s = 4.0, std::string file = "") {
  return {
      .tuning = ai::Tuning::Measure, .tuning_budget_s = budget_s, .tuning_cache = std::move(file)};
}

[[nodiscard]] inline ai::Executable captured_as(const ai::Program& program,
                                                const ai::CaptureOptions& options) {
  ai::Result<ai::Executable> executable = ai::capture(program, options);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  return std::move(executable).value();
}

/// Whether one chain kernel carries out the whole program.
[[nodiscard]] inline bool is_one_node(const ai::Executable& executable) {
  const std::vector<ai::Node>& nodes = executable.nodes();
  return nodes.size() == 1 && nodes[0].name.find("chain") != std::string::npos;
}

[[nodiscard]] inline std::string nodes_of(const ai::Executable& executable) {
  if (is_one_node(executable)) return "one node";
  return std::to_string(executable.nodes().size()) + " nodes";
}

/// Of each run of layers that is one kernel, which of them that is: "chain", "rows", "grid" or
/// "tiles".
[[nodiscard]] inline std::vector<std::string> chosen_kernels(const ai::Executable& executable) {
  std::vector<std::string> kernels;
  std::istringstream lines(executable.explain());
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (!line.starts_with("* ")) continue;
    const std::string word = line.substr(2, line.find('/') - 2);
    for (const char* kernel : {"chain", "rows", "grid", "tiles"}) {
      if (word == kernel) kernels.push_back(word);
    }
  }
  return kernels;
}
/// The first of them; empty where there is none.
[[nodiscard]] inline std::string chosen_kernel(const ai::Executable& executable) {
  const std::vector<std::string> kernels = chosen_kernels(executable);
  return kernels.empty() ? "" : kernels.front();
}

/// What explain() says of runs of layers, in one line; all of it where it says nothing of them.
[[nodiscard]] inline std::string run_lines(const ai::Executable& executable) {
  std::string of_runs;
  std::string all;
  std::istringstream lines(executable.explain());
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    all += (all.empty() ? "" : " | ") + line;
    const auto tells_of = [&](const char* kernel) {
      return line.find(kernel) != std::string::npos;
    };
    if (!tells_of("chain") && !tells_of("layers") && !tells_of("rows/") && !tells_of("grid/") &&
        !tells_of("tiles/")) {
      continue;
    }
    of_runs += (of_runs.empty() ? "" : " | ") + line;
  }
  return of_runs.empty() ? "no run in explain(): " + all : of_runs;
}

/// Enqueues a replay on `stream` and waits for it.
inline void replay(ai::Executable& executable, cudaStream_t stream = nullptr) {
  require_good(executable.launch(stream));
  require_good(executable.wait());
}

/// A network on the GPU, captured.
class DeviceChain {
 public:
  explicit DeviceChain(const ChainSpec& spec, const ai::CaptureOptions& options = measured())
      : now(spec),
        arena(now),
        executable(captured_as(program_of(now, arena), options)),
        before_(spec) {}
  DeviceChain(const DeviceChain&) = delete;
  DeviceChain& operator=(const DeviceChain&) = delete;

  /// The first values again, outputs poisoned.
  void reset() {
    now.restore(before_);
    arena.upload(now);
  }
  /// As above with `change(network)` made to the inputs, which then count as the first values.
  template <typename Change>
  void reset_with(Change&& change) {
    before_.restore(pristine());
    change(before_);
    reset();
  }
  /// A replay from the first values; what it wrote is in `now`.
  void run() {
    reset();
    replay(executable);
    arena.download(now);
  }
  /// Of what is in `now`: every layer, and what was written beside the outputs.
  [[nodiscard]] ChainVerdict verdict() {
    ChainVerdict verdict = check_layers(now);
    const std::string damage = support::damage(before_, now);
    if (!damage.empty()) verdict.faults += "written beside outputs: " + damage;
    return verdict;
  }
  [[nodiscard]] bool is_one() const { return is_one_node(executable); }
  /// For the record: what this is, and how many nodes.
  [[nodiscard]] std::string summary() const {
    return nodes_of(executable) + ": " + to_string(now.spec);
  }

  ChainNetwork now;
  Arena arena;
  ai::Executable executable;

 private:
  [[nodiscard]] ChainNetwork& pristine() {
    if (!pristine_) pristine_.emplace(now.spec);
    return *pristine_;
  }

  ChainNetwork before_;
  std::optional<ChainNetwork> pristine_;
};

}  // namespace gpu
