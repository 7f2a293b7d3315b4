#include <doctest/doctest.h>

#include <string>

#include "fake_device.hpp"

namespace {

using ai::StatusCode;
using Loaded = ai::Result<std::shared_ptr<const ai::kernels::LtContext>>;

ai::Result<std::string> libraries_with(ai::kernels::Machine::LtLoader load) {
  return ai::kernels::make_backend(fake_device::api(), load, 0)->libraries();
}

}  // namespace

TEST_CASE("the backend names the version of cuBLASLt that was loaded, and its own candidates") {
  const auto backend = fake_device::fresh_backend();
  const ai::Result<std::string> libraries = backend->libraries();
  REQUIRE(libraries.ok());
  CHECK(*libraries == "cuBLASLt 13.2.7, kernels 5");
  CHECK(fake_lt::state().loads == 1);
  CHECK(*backend->libraries() == *libraries);
  CHECK(fake_lt::state().loads == 1);
}

TEST_CASE("a backend without cuBLASLt has its own candidates all the same") {
  const ai::Result<std::string> libraries = libraries_with([](const ai::cuda::Api&, int) -> Loaded {
    return ai::Status(StatusCode::Unsupported, "libcublasLt.so.13 is nowhere");
  });
  REQUIRE_MESSAGE(libraries.ok(), libraries.status().to_string());
  CHECK(*libraries == "no cuBLASLt, kernels 5");
}

TEST_CASE("what may go well the next time is no missing library") {
  const ai::Result<std::string> libraries = libraries_with([](const ai::cuda::Api&, int) -> Loaded {
    return ai::Status(StatusCode::OutOfMemory, "no memory for a handle");
  });
  CHECK(libraries.status().code() == StatusCode::OutOfMemory);
  CHECK(libraries.status().message() == "no memory for a handle");
}
