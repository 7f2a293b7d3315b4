#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "activation_grad_small.hpp"
#include "ai/activation.hpp"
#include "ai/backend.hpp"
#include "bias_grad.hpp"
#include "cuda/api.hpp"
#include "epilogue_small.hpp"
#include "fake_chain.hpp"
#include "fake_fused.hpp"
#include "fake_lt.hpp"
#include "kernels/backend.hpp"
#include "kernels/epilogue.hpp"

/// A GPU whose memory is the host's: it runs the fused kernels, the epilogue kernels, the gradient
/// kernels over few rows, the one that sums partial sums into gBias, and the memsets at once.
namespace fake_device {

/// What was launched last, apart from cuBLASLt.
struct Launch {
  const void* kernel = nullptr;
  int width = 0;       ///< of the epilogue kernel; 0: another kernel
  bool small = false;  ///< the epilogue kernel for one element a thread
  unsigned blocks = 0;
  unsigned threads = 0;
  unsigned blocks_y = 1;
  unsigned threads_y = 1;
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

/// Calls f(row, col) for each thread of the grid that is in a matrix of those sizes.
template <typename F>
void for_each_thread(const Launch& launch, std::uint32_t rows, std::uint32_t cols, F&& f) {
  for (std::uint32_t row = 0; row < launch.blocks_y * launch.threads_y; ++row) {
    for (std::uint32_t col = 0; col < launch.blocks * launch.threads; ++col) {
      if (row < rows && col < cols) f(row, col);
    }
  }
}

/// What the kernels in activation_grad_small.cu do.
template <ai::ActKind kAct>
void run_small_gradient(const ai::kernels::SmallGradient& call, ai::kernels::SmallGradientForm form,
                        const Launch& launch) {
  using ai::kernels::SmallGradientForm;
  constexpr unsigned kTile = ai::kernels::kTileColumns;
  if (form == SmallGradientForm::Elements) {
    return for_each_thread(launch, call.rows, call.cols, [&](std::uint32_t row, std::uint32_t col) {
      ai::kernels::small_gradient_element<kAct>(call, row, col);
    });
  }
  const bool tiles = form == SmallGradientForm::Tiles;
  const std::uint32_t groups = tiles ? launch.threads / kTile : 1;
  const std::uint32_t reach = launch.blocks * (tiles ? kTile : launch.threads);
  for (std::uint32_t col = 0; col < call.cols && col < reach; ++col) {
    double sum = 0.0;
    for (std::uint32_t group = 0; group < groups && group < call.rows; ++group) {
      sum += ai::kernels::small_gradient_column<kAct>(call, col, group, groups);
    }
    if (call.bias != nullptr) ai::kernels::store_small_bias(call, col, sum);
  }
}

/// Runs one of the small kernels, if `kernel` is one for `kind`.
template <ai::ActKind kAct>
void run_small(Launch& launch, void** arguments) {
  using ai::kernels::SmallGradientForm;
  for (const bool with_z : {false, true}) {
    if (launch.kernel != ai::kernels::small_epilogue_kernel(kAct, with_z)) continue;
    launch.small = true;
    const auto& call = *static_cast<const ai::kernels::SmallEpilogue*>(arguments[0]);
    for_each_thread(launch, call.rows, call.cols, [&](std::uint32_t row, std::uint32_t col) {
      with_z ? ai::kernels::small_epilogue_element<kAct, true>(call, row, col)
             : ai::kernels::small_epilogue_element<kAct, false>(call, row, col);
    });
  }
  for (const auto form :
       {SmallGradientForm::Elements, SmallGradientForm::Columns, SmallGradientForm::Tiles}) {
    const auto kernel = ai::kernels::small_gradient_kernel(kAct, form);
    if (launch.kernel != reinterpret_cast<const void*>(kernel)) continue;
    run_small_gradient<kAct>(*static_cast<const ai::kernels::SmallGradient*>(arguments[0]), form,
                             launch);
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
  if (fake_chain::run_if_chain(*config, kernel, arguments)) return cudaSuccess;
  Launch launch;
  launch.kernel = kernel;
  launch.blocks = config->gridDim.x;
  launch.threads = config->blockDim.x;
  launch.blocks_y = config->gridDim.y;
  launch.threads_y = config->blockDim.y;
  const std::int64_t threads = std::int64_t{launch.blocks} * launch.threads;
  for (int act = 0; act <= static_cast<int>(ai::ActKind::Tanh); ++act) {
    const auto kind = static_cast<ai::ActKind>(act);
    ai::activation::dispatch(kind, [&]<ai::ActKind kAct>() { run_small<kAct>(launch, arguments); });
    fake_fused::run_if_fused(kernel, kind, launch.blocks, launch.threads, arguments);
    for (const int width : {1, 4}) {
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
        default: return fake_chain::attribute(value, attribute);
      }
      return cudaSuccess;
    };
    api.thread_exchange_stream_capture_mode = [](cudaStreamCaptureMode* mode) {
      std::swap(*mode, state().mode);
      return cudaSuccess;
    };
    api.launch_kernel_ex = &launch;
    fake_chain::fill(api);
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
