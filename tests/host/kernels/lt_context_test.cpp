#include "kernels/lt_context.hpp"

#include <memory>
#include <vector>

#include "forward_support.hpp"

using namespace forward_test;
using ai::kernels::LtContext;
using ai::kernels::LtContexts;

namespace {

std::unique_ptr<LtContexts> contexts;

/// Backends that share `contexts`, as those of one process share process_lt.
std::unique_ptr<ai::Backend> backend(int device) {
  return ai::kernels::make_backend(
      fake_device::api(), [](const ai::cuda::Api& api, int of) { return contexts->get(api, of); },
      device);
}

struct Fixture {
  Fixture() {
    (void)fake_device::fresh_backend();
    contexts = std::make_unique<LtContexts>(
        [](const ai::cuda::Api& api) { return LtContext::make(api, fake_lt::api()); });
  }
  ~Fixture() { contexts.reset(); }

  /// Lowers and runs a product on a device with a backend that does not live on.
  cublasLtHandle_t handle_of(int device) {
    const Operands o;
    GemmForward call = o.call();
    for (ai::Tensor* tensor : {&call.A, &call.B, &call.Y}) tensor->device_index = device;
    fake_lt::state().calls.clear();
    REQUIRE(fake_device::Runner().run(lower(*backend(device), call).candidates.back()).ok());
    REQUIRE(fake_lt::state().calls.size() == 1);
    return fake_lt::state().calls[0].handle;
  }
};

}  // namespace

TEST_CASE("a device has one handle for good, and no other device's") {
  Fixture f;
  const cublasLtHandle_t first = f.handle_of(0);
  const cublasLtHandle_t second = f.handle_of(1);
  CHECK(first != second);
  CHECK(f.handle_of(0) == first);
  CHECK(f.handle_of(1) == second);
  CHECK(fake_lt::state().created == 2);
  CHECK(fake_lt::state().handles == 2);
}

TEST_CASE("a handle that could not be made is asked for again") {
  Fixture f;
  fake_lt::state().create = CUBLAS_STATUS_ALLOC_FAILED;
  CHECK(contexts->get(fake_device::api(), 0).status().code() == ai::StatusCode::OutOfMemory);
  fake_lt::state().create = CUBLAS_STATUS_SUCCESS;
  CHECK(contexts->get(fake_device::api(), 0).ok());
  CHECK(fake_lt::state().created == 1);
}
