#include "peers/cublaslt_chain.hpp"

#include <cublasLt.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "cuda/lt_api.hpp"
#include "timing.hpp"

namespace bench {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr int kMaxAnswers = 64;
constexpr int kCopies = 10;

void check_lt(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: cuBLAS status %d\n", what, static_cast<int>(status));
  std::exit(1);
}

cudaGraphExec_t record(cudaStream_t stream, const std::function<void()>& work) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  work();
  check(cudaStreamEndCapture(stream, &graph), "end capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  check(cudaGraphUpload(exec, stream), "upload");
  check(cudaGraphDestroy(graph), "destroy graph");
  return exec;
}

// One layer, as the transposed column-major problem Y^T = B^T A^T.
struct Layer {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight_layout = nullptr;
  cublasLtMatrixLayout_t input_layout = nullptr;
  cublasLtMatrixLayout_t output_layout = nullptr;
  const float* weight = nullptr;
  const float* input = nullptr;
  float* output = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> answers;
  int pick = 0;
};

}  // namespace

struct CublasLtChain::Impl {
  const ai::cuda::LtApi* lt = nullptr;
  cublasLtHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  std::vector<Layer> layers;
  std::vector<int> picks;
  cudaGraphExec_t exec = nullptr;

  ~Impl() {
    if (exec != nullptr) (void)cudaGraphExecDestroy(exec);
    for (Layer& layer : layers) {
      (void)lt->matrix_layout_destroy(layer.weight_layout);
      (void)lt->matrix_layout_destroy(layer.input_layout);
      (void)lt->matrix_layout_destroy(layer.output_layout);
      (void)lt->matmul_desc_destroy(layer.operation);
    }
    if (handle != nullptr) (void)lt->destroy(handle);
    (void)cudaFree(workspace);
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
  }

  template <typename T>
  void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
           const T& value) const {
    check_lt(lt->matmul_desc_set_attribute(operation, attribute, &value, sizeof value),
             "cublasLtMatmulDescSetAttribute");
  }

  void add_layer(int m, int n, int k, const float* input, const float* weight, const float* bias,
                 float* output, bool relu) {
    Layer& layer = layers.emplace_back();
    layer.input = input;
    layer.weight = weight;
    layer.output = output;
    check_lt(lt->matmul_desc_create(&layer.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "cublasLtMatmulDescCreate");
    set(layer.operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
        relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(layer.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    const auto rows = [](int extent) { return static_cast<std::uint64_t>(extent); };
    check_lt(lt->matrix_layout_create(&layer.weight_layout, CUDA_R_32F, rows(n), rows(k), n),
             "cublasLtMatrixLayoutCreate");
    check_lt(lt->matrix_layout_create(&layer.input_layout, CUDA_R_32F, rows(k), rows(m), k),
             "cublasLtMatrixLayoutCreate");
    check_lt(lt->matrix_layout_create(&layer.output_layout, CUDA_R_32F, rows(n), rows(m), n),
             "cublasLtMatrixLayoutCreate");

    cublasLtMatmulPreference_t preference = nullptr;
    check_lt(lt->matmul_preference_create(&preference), "cublasLtMatmulPreferenceCreate");
    check_lt(
        lt->matmul_preference_set_attribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &kWorkspaceBytes, sizeof kWorkspaceBytes),
        "cublasLtMatmulPreferenceSetAttribute");
    layer.answers.resize(kMaxAnswers);
    int count = 0;
    check_lt(
        lt->matmul_algo_get_heuristic(handle, layer.operation, layer.weight_layout,
                                      layer.input_layout, layer.output_layout, layer.output_layout,
                                      preference, kMaxAnswers, layer.answers.data(), &count),
        "cublasLtMatmulAlgoGetHeuristic");
    layer.answers.resize(static_cast<std::size_t>(count));
    check_lt(lt->matmul_preference_destroy(preference), "cublasLtMatmulPreferenceDestroy");
  }

  void enqueue(const Layer& layer, std::size_t answer, cudaStream_t on) const {
    const float alpha = 1.0F;
    const float beta = 0.0F;
    check_lt(lt->matmul(handle, layer.operation, &alpha, layer.weight, layer.weight_layout,
                        layer.input, layer.input_layout, &beta, layer.output, layer.output_layout,
                        layer.output, layer.output_layout, &layer.answers[answer].algo, workspace,
                        kWorkspaceBytes, on),
             "cublasLtMatmul");
  }

  void tune(Layer& layer) const {
    double best = 1e30;
    for (std::size_t i = 0; i < layer.answers.size(); ++i) {
      if (layer.answers[i].state != CUBLAS_STATUS_SUCCESS) continue;
      cudaGraphExec_t copies = record(stream, [&] {
        for (int copy = 0; copy < kCopies; ++copy) enqueue(layer, i, stream);
      });
      const auto launch = [&](cudaStream_t on) { check(cudaGraphLaunch(copies, on), "launch"); };
      for (int j = 0; j < 10; ++j) launch(stream);
      std::vector<double> times;
      for (int j = 0; j < 7; ++j) times.push_back(back_to_back(stream, launch, 20));
      if (const double time = quantile(times); time < best) {
        best = time;
        layer.pick = static_cast<int>(i);
      }
      check(cudaGraphExecDestroy(copies), "destroy");
    }
  }
};

CublasLtChain::CublasLtChain(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
CublasLtChain::CublasLtChain(CublasLtChain&&) noexcept = default;
CublasLtChain& CublasLtChain::operator=(CublasLtChain&&) noexcept = default;
CublasLtChain::~CublasLtChain() = default;

ai::Result<CublasLtChain> CublasLtChain::make(const std::vector<int>& widths, int batch,
                                              const std::vector<float*>& activations,
                                              const std::vector<float*>& weights,
                                              const std::vector<float*>& biases) {
  const auto lt = ai::cuda::lt_api();
  if (!lt.ok()) return lt.status();
  auto impl = std::make_unique<Impl>();
  impl->lt = *lt;
  check_lt(impl->lt->create(&impl->handle), "cublasLtCreate");
  check(cudaStreamCreateWithFlags(&impl->stream, cudaStreamNonBlocking), "stream");
  check(cudaMalloc(&impl->workspace, kWorkspaceBytes), "workspace");
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    impl->add_layer(batch, widths[i + 1], widths[i], activations[i], weights[i], biases[i],
                    activations[i + 1], i + 2 < widths.size());
    if (impl->layers.back().answers.empty()) {
      return ai::Status(ai::StatusCode::Unsupported,
                        "cuBLASLt offers no algorithm for layer " + std::to_string(i));
    }
  }
  for (Layer& layer : impl->layers) {
    impl->tune(layer);
    impl->picks.push_back(layer.pick);
  }
  impl->exec = record(impl->stream, [&] {
    for (const Layer& layer : impl->layers) {
      impl->enqueue(layer, static_cast<std::size_t>(layer.pick), impl->stream);
    }
  });
  check(cudaStreamSynchronize(impl->stream), "upload");
  return CublasLtChain(std::move(impl));
}

void CublasLtChain::launch(cudaStream_t stream) const {
  check(cudaGraphLaunch(impl_->exec, stream), "cudaGraphLaunch");
}

const std::vector<int>& CublasLtChain::picks() const {
  return impl_->picks;
}

}  // namespace bench
