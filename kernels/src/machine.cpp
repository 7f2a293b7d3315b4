#include "kernels/machine.hpp"

#include <utility>

#include "cuda/error.hpp"

namespace ai::kernels {

Result<int> Machine::sm_count() {
  if (sm_count_ == 0) {
    AI_CUDA_RETURN_IF_ERROR(api_, device_get_attribute, &sm_count_, cudaDevAttrMultiProcessorCount,
                            device_);
  }
  return sm_count_;
}

Result<std::int64_t> Machine::resident_threads() {
  const Result<int> multiprocessors = sm_count();
  AI_RETURN_IF_ERROR(multiprocessors.status());
  if (sm_threads_ == 0) {
    AI_CUDA_RETURN_IF_ERROR(api_, device_get_attribute, &sm_threads_,
                            cudaDevAttrMaxThreadsPerMultiProcessor, device_);
  }
  return std::int64_t{*multiprocessors} * sm_threads_;
}

Result<std::shared_ptr<const LtContext>> Machine::lt() {
  if (lt_ == nullptr) {
    Result<std::shared_ptr<const LtContext>> loaded = load_lt_(api_, device_);
    AI_RETURN_IF_ERROR(loaded.status());
    lt_ = std::move(loaded).value();
  }
  return lt_;
}

Result<const std::vector<LtAlgorithm>*> Machine::algorithms(const LtMatmul& matmul,
                                                            std::size_t workspace_bytes) {
  const LtQuestion question = matmul.question(workspace_bytes);
  auto known = answers_.find(question);
  if (known == answers_.end()) {
    ++queries_;
    Result<std::vector<LtAlgorithm>> answers = matmul.algorithms(workspace_bytes);
    AI_RETURN_IF_ERROR(answers.status());
    known = answers_.emplace(question, *std::move(answers)).first;
  }
  return &known->second;
}

}  // namespace ai::kernels
