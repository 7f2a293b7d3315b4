#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ai/activation.hpp"
#include "ai/backend.hpp"
#include "bias_grad.hpp"
#include "cuda/api.hpp"
#include "fake_lt.hpp"
#include "kernels/backend.hpp"
#include "kernels/epilogue.hpp"

/// A GPU whose memory is the host's: it runs the epilogue kernel, the one that sums
/// partial sums into gBias, and the memsets at once.
namespace fake_device {

/// What was launched last, apart from cuBLASLt.
struct Launch {
  const void* kernel = nullptr;
  int width = 0;  ///< of the epilogue kernel; 0: another kernel
  unsigned blocks = 0;
  unsigned threads = 0;
};
struct State {
  int device = 0;
  std::vector<int> devices_set;
  int sm_count = 2;
  int sm_threads = 1536;
  std::vector<cudaDeviceAttr> attributes;  ///< that were asked for
  std::vector<std::string> calls;  ///< "kernel", "memset", "memset_2d", "begin", "end", "load"
  std::vector<Launch> launches;
  cudaError_t launch_error = cudaSuccess;
  std::vector<cudaError_t> end_errors;  ///< of the captures to come, one each; then they work
  int graphs = 0;                       ///< that are alive
  cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
  cudaStreamCaptureMode begin_mode = cudaStreamCaptureModeGlobal;
};
inline State& state() {
  static State instance;
  return instance;
}

/// What the kernel in epilogue.cu does, thread after thread.
template <ai::ActKind kAct>
void run_epilogue(const ai::kernels::EpilogueArguments& args, int width, std::int64_t threads) {
  const ai::kernels::Epilogue& call = args.call;
  for (std::int64_t index = 0; index < threads; ++index) {
    std::int64_t row = index / args.cols;
    std::int64_t unit = index % args.cols;
    while (row < call.y.rows) {
      for (std::int64_t col = unit * width; col < (unit + 1) * width; ++col) {
        float z = call.raw.data != nullptr ? call.raw.data[row * call.raw.ld + col] : 0.0F;
        if (call.c.data != nullptr) z += call.beta * call.c.data[row * call.c.ld + col];
        if (call.bias != nullptr) z += call.bias[row * call.bias_row + col * call.bias_col];
        if (call.z.data != nullptr) call.z.data[row * call.z.ld + col] = z;
        call.y.data[row * call.y.ld + col] = ai::activation::apply<kAct>(z, call.slope);
      }
      row += args.step_rows;
      unit += args.step_cols;
      if (unit >= args.cols) {
        unit -= args.cols;
        ++row;
      }
    }
  }
}

/// What the kernel in bias_grad.cu does.
inline void run_bias_grad(const ai::kernels::BiasGradArgs& args) {
  const ai::kernels::VectorView& bias = args.target.bias;
  for (std::int64_t i = 0; i < bias.count; ++i) {
    float& element = bias.data[i * bias.stride];
    double sum = args.target.accumulate ? static_cast<double>(element) : 0.0;
    for (std::int64_t part = 0; part < args.parts; ++part) {
      sum += args.partial[part * bias.count + i];
    }
    element = static_cast<float>(sum);
  }
}

inline cudaError_t launch(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  if (state().launch_error != cudaSuccess) return state().launch_error;
  state().calls.emplace_back("kernel");
  Launch launch = {kernel, 0, config->gridDim.x, config->blockDim.x};
  const std::int64_t threads = std::int64_t{launch.blocks} * launch.threads;
  for (int act = 0; act <= static_cast<int>(ai::ActKind::Tanh); ++act) {
    for (const int width : {1, 4}) {
      const auto kind = static_cast<ai::ActKind>(act);
      if (kernel != ai::kernels::epilogue_kernel(kind, width)) continue;
      launch.width = width;
      const auto& args = *static_cast<const ai::kernels::EpilogueArguments*>(arguments[0]);
      ai::activation::dispatch(
          kind, [&]<ai::ActKind kAct>() { run_epilogue<kAct>(args, width, threads); });
    }
  }
  if (kernel == reinterpret_cast<const void*>(ai::kernels::bias_grad_kernel())) {
    run_bias_grad(*static_cast<const ai::kernels::BiasGradArgs*>(arguments[0]));
  }
  state().launches.push_back(launch);
  return cudaSuccess;
}

inline const ai::cuda::Api& api() {
  static const ai::cuda::Api table = [] {
    ai::cuda::Api api = {};
    api.get_last_error = [] { return cudaSuccess; };
    api.get_error_name = [](cudaError_t) { return "an error of the fake"; };
    api.get_error_string = api.get_error_name;
    api.get_device = [](int* device) {
      *device = state().device;
      return cudaSuccess;
    };
    api.set_device = [](int device) {
      state().device = device;
      state().devices_set.push_back(device);
      return cudaSuccess;
    };
    api.device_get_attribute = [](int* value, cudaDeviceAttr attribute, int) {
      state().attributes.push_back(attribute);
      switch (attribute) {
        case cudaDevAttrMultiProcessorCount: *value = state().sm_count; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = state().sm_threads; break;
        default: return cudaErrorInvalidValue;
      }
      return cudaSuccess;
    };
    api.thread_exchange_stream_capture_mode = [](cudaStreamCaptureMode* mode) {
      std::swap(*mode, state().mode);
      return cudaSuccess;
    };
    api.launch_kernel_ex = &launch;
    api.func_get_attributes = [](cudaFuncAttributes*, const void*) {
      state().calls.emplace_back("load");
      return cudaSuccess;
    };
    api.memset_async = [](void* at, int value, std::size_t bytes, cudaStream_t) {
      state().calls.emplace_back("memset");
      std::memset(at, value, bytes);
      return cudaSuccess;
    };
    api.memset_2d_async = [](void* at, std::size_t pitch, int value, std::size_t width,
                             std::size_t rows, cudaStream_t) {
      state().calls.emplace_back("memset_2d");
      for (std::size_t r = 0; r < rows; ++r) {
        std::memset(static_cast<char*>(at) + r * pitch, value, width);
      }
      return cudaSuccess;
    };
    api.stream_create_with_flags = [](cudaStream_t* stream, unsigned) {
      *stream = reinterpret_cast<cudaStream_t>(&state());
      return cudaSuccess;
    };
    api.stream_destroy = [](cudaStream_t) { return cudaSuccess; };
    api.graph_destroy = [](cudaGraph_t) {
      --state().graphs;
      return cudaSuccess;
    };
    api.stream_begin_capture = [](cudaStream_t, cudaStreamCaptureMode mode) {
      state().calls.emplace_back("begin");
      state().begin_mode = mode;
      return cudaSuccess;
    };
    api.stream_end_capture = [](cudaStream_t, cudaGraph_t* graph) {
      state().calls.emplace_back("end");
      *graph = nullptr;
      if (std::vector<cudaError_t>& errors = state().end_errors; !errors.empty()) {
        const cudaError_t error = errors.front();
        errors.erase(errors.begin());
        if (error != cudaSuccess) return error;
      }
      *graph = reinterpret_cast<cudaGraph_t>(&state());
      ++state().graphs;
      return cudaSuccess;
    };
    return api;
  }();
  return table;
}

/// A backend over the fakes, both in their first state.
inline std::unique_ptr<ai::Backend> fresh_backend(int device = 0) {
  state() = {};
  fake_lt::state() = {};
  return ai::kernels::make_backend(api(), &fake_lt::load, device);
}

/// The candidate of that name, else null.
inline const ai::Candidate* find(const ai::Task& task, const std::string& name) {
  for (const ai::Candidate& candidate : task.candidates) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

inline std::vector<std::string> names(const ai::Task& task) {
  std::vector<std::string> result;
  for (const ai::Candidate& candidate : task.candidates) result.push_back(candidate.name);
  return result;
}

/// Enqueues steps in order, each symbolic range over memory of its own.
class Runner {
 public:
  ai::Status run(const ai::Candidate& candidate) {
    for (const std::shared_ptr<ai::Step>& step : candidate.steps) {
      for (const ai::MemoryRange& range : step->writes()) place(range);
    }
    for (const std::shared_ptr<ai::Step>& step : candidate.steps) {
      AI_RETURN_IF_ERROR(step->enqueue(addresses_, nullptr));
    }
    return {};
  }

  ai::AddressMap& addresses() { return addresses_; }

 private:
  void place(const ai::MemoryRange& range) {
    const auto* at = reinterpret_cast<const void*>(range.begin);
    if (!ai::symbolic::is_symbolic(at) || addresses_(at) != at) return;
    const std::size_t bytes = range.end() - range.begin;
    blocks_.push_back(std::make_unique<char[]>(bytes + 256));
    const auto block = reinterpret_cast<std::uintptr_t>(blocks_.back().get());
    addresses_.add(range.begin, bytes, reinterpret_cast<void*>((block + 255) / 256 * 256));
  }

  std::vector<std::unique_ptr<char[]>> blocks_;
  ai::AddressMap addresses_;
};

}  // namespace fake_device
