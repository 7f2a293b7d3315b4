// Whole networks, forward and backward of all layers, captured and replayed on the GPU.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include "device_case.hpp"
#include "support/check_network.hpp"

namespace {

struct OnDevice : gpu::DeviceCopies {
  static void copies_first_read_to_first_write(ai::UserStep& step) {
    step.cuda = [](const ai::StepContext& context) -> ai::Status {
      const ai::Tensor& from = context.reads[0];  // a temporary: packed
      const ai::Extents& shape = from.desc.shape;
      const auto bytes = static_cast<std::size_t>(shape[0] * shape[1]) * sizeof(float);
      const cudaError_t error = cudaMemcpyAsync(context.writes[0].data, from.data, bytes,
                                                cudaMemcpyDeviceToDevice, context.stream);
      if (error == cudaSuccess) return {};
      return {ai::StatusCode::CudaError, cudaGetErrorString(error)};
    };
  }
};

const ai::CaptureOptions kUntuned{.tuning = ai::Tuning::Off};
const ai::CaptureOptions kTuned{.tuning = ai::Tuning::Measure, .tuning_budget_s = 0.3};

TEST_CASE("every layer of a network equals the oracle on what the GPU wrote for the one before") {
  support::check_networks_in_buffers<OnDevice>(kUntuned, 1, 100);
}

TEST_CASE("every layer of a tuned network equals the oracle") {
  support::check_networks_in_buffers<OnDevice>(kTuned, 4, 100);
}

TEST_CASE("every layer of a network over temporaries equals the oracle, tuned or not") {
  support::check_observed_networks<OnDevice>(kUntuned, 1, 100);
  support::check_observed_networks<OnDevice>(kTuned, 4, 100);
}

TEST_CASE("a network over temporaries gives the same bits as over buffers") {
  support::check_networks_in_temporaries<OnDevice>(kUntuned, 1, 100);
}

TEST_CASE("in the graph of a network, gA and gB of a layer do not wait for each other") {
  support::check_network_graphs<OnDevice>(kUntuned, 1);
  support::check_network_graphs<OnDevice>(kTuned, 8);
}

}  // namespace
