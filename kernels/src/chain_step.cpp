#include "chain_step.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "kernels/launch.hpp"
#include "kernels/variants.hpp"
#include "kernels/views.hpp"

namespace ai::kernels::chain {
namespace {

std::vector<MemoryRange> reads_of(std::span<const GemmPlan> plans) {
  std::vector<MemoryRange> ranges = {range_of(forward_problem(plans.front()).product.l)};
  for (const GemmPlan& plan : plans) {
    const ForwardProblem problem = forward_problem(plan);
    ranges.push_back(range_of(problem.product.r));
    if (problem.bias.data != nullptr) ranges.push_back(range_of(problem.bias));
  }
  return ranges;
}

std::vector<MemoryRange> writes_of(std::span<const GemmPlan> plans, const Network& network) {
  std::vector<MemoryRange> ranges;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const ForwardProblem problem = forward_problem(plans[i]);
    if (network.layers[i].writes_y) ranges.push_back(range_of(problem.product.d));
    if (network.layers[i].writes_z) ranges.push_back(range_of(problem.z));
  }
  return ranges;
}

/// What the step touches and what it tells its kernel.
struct Memory {
  std::vector<MemoryRange> reads;
  std::vector<MemoryRange> writes;
  std::vector<MemoryRange> state;
  std::vector<void*> arguments;
};

Memory memory_of(std::span<const GemmPlan> plans, const Network& network, const Form& form) {
  Memory memory{reads_of(plans), writes_of(plans, network), {}, arguments_of(plans, network)};
  if (const std::size_t bytes = state_bytes(network, form); bytes > 0) {
    memory.arguments.push_back(symbolic::allocate(bytes));
    memory.state = {range_of(memory.arguments.back(), bytes)};
    memory.writes.push_back(memory.state.front());
  }
  return memory;
}

class ChainStep final : public Step {
 public:
  ChainStep(const cuda::Api& api, std::size_t layers, Memory memory, const LaunchShape& shape,
            std::shared_ptr<cuda::KernelImage> image)
      : Step("chain of " + std::to_string(layers) + (layers == 1 ? " layer" : " layers"),
             std::move(memory.reads), std::move(memory.writes), std::move(memory.state)),
        api_(api),
        shape_(shape),
        arguments_(std::move(memory.arguments)),
        image_(std::move(image)) {}

  Status prepare() override {
    const Result<const void*> kernel = image_->kernel(kKernelName);
    AI_RETURN_IF_ERROR(kernel.status());
    AI_RETURN_IF_ERROR(prepare_launch(api_, *kernel, shape_));
    kernel_ = *kernel;
    return {};
  }

  // The kernel's one parameter is a structure of these addresses. Several threads may be here.
  Status enqueue(const AddressMap& addresses, Stream stream) override {
    std::array<void*, 2 + 4 * kMostLayers> parameter = {};
    std::transform(arguments_.begin(), arguments_.end(), parameter.begin(),
                   [&](void* at) { return at == nullptr ? nullptr : addresses(at); });
    void* parameters[] = {parameter.data()};
    return launch(api_, kernel_, shape_, stream, parameters);
  }

 private:
  const cuda::Api& api_;
  LaunchShape shape_;
  std::vector<void*> arguments_;
  std::shared_ptr<cuda::KernelImage> image_;
  std::atomic<const void*> kernel_ = nullptr;
};

}  // namespace

std::shared_ptr<Step> make_chain_step(const cuda::Api& api, std::span<const GemmPlan> plans,
                                      const Network& network, const Form& form,
                                      std::shared_ptr<cuda::KernelImage> image) {
  return std::make_shared<ChainStep>(api, plans.size(), memory_of(plans, network, form),
                                     launch_shape(network, form), std::move(image));
}

}  // namespace ai::kernels::chain
