#include "cuda/kernel_image.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "counted_nvrtc.hpp"
#include "recording_api.hpp"

using namespace ai::cuda;
using test::CountedNvrtc;
using test::FakeNvrtc;
using test::recording;
using test::request;

namespace {

std::vector<RequestedImage> images(const Api& api, const std::vector<CompileRequest>& requests) {
  auto made = kernel_images(api, &CountedNvrtc::load, CubinStore(""), requests);
  REQUIRE(made.ok());
  REQUIRE(made->size() == requests.size());
  return std::move(made).value();
}

}  // namespace

TEST_CASE("an image is loaded by the first call for a kernel, once, and unloaded with its owner") {
  CountedNvrtc::reset();
  const Api api = test::recording_api();
  {
    const auto made = images(api, {request("code")});
    KernelImage& image = **made[0].image;
    CHECK(made[0].compiled);
    CHECK(made[0].compile_s > 0);
    CHECK(recording().calls.empty());
    const auto kernel = image.kernel("name");
    REQUIRE(kernel.ok());
    CHECK(*kernel != nullptr);
    CHECK(*image.kernel("name") == *kernel);
    CHECK(recording().count("library_load_data") == 1);
    CHECK(recording().image == image.cubin().image.data());
  }
  CHECK(recording().count("library_unload") == 1);
  CHECK(recording().unload_mode == cudaStreamCaptureModeRelaxed);
  CHECK(recording().mode == cudaStreamCaptureModeThreadLocal);
  CHECK(recording().live.empty());
}

TEST_CASE("a load that fails is tried again; a kernel that is not there is told") {
  CountedNvrtc::reset();
  const Api api = test::recording_api();
  const auto made = images(api, {request("code")});
  recording().fail["library_load_data"] = cudaErrorInvalidKernelImage;
  CHECK(!(*made[0].image)->kernel("name"));
  recording().fail.clear();
  recording().fail["library_get_kernel"] = cudaErrorSymbolNotFound;
  const auto none = (*made[0].image)->kernel("name");
  CHECK(none.status().message().starts_with("cudaLibraryGetKernel"));
  recording().fail.clear();
  CHECK((*made[0].image)->kernel("name").ok());
  CHECK(recording().last_error == cudaSuccess);
}

TEST_CASE("what someone holds is given again; what nobody holds is made again") {
  CountedNvrtc::reset();
  const Api api = test::recording_api();
  const Api other = api;
  auto first = images(api, {request("a"), request("b")});
  const auto second = images(api, {request("b"), request("c")});
  CHECK(FakeNvrtc::compiled == 3);
  CHECK(second[0].image->get() == first[1].image->get());
  CHECK_FALSE(second[0].compiled);
  CHECK(second[0].compile_s == 0);
  CHECK(images(other, {request("a")})[0].compiled);  // loaded through another table
  first.clear();
  CHECK(images(api, {request("b")})[0].image->get() == second[0].image->get());
  CHECK(images(api, {request("a")})[0].compiled);
  CHECK(FakeNvrtc::compiled == 5);
}

TEST_CASE("equal requests share one image, and failures are not remembered") {
  CountedNvrtc::reset();
  const Api api = test::recording_api();
  const auto made = images(api, {request("a"), request("a"), request("bad")});
  CHECK(made[0].image->get() == made[1].image->get());
  CHECK(made[0].compiled);
  CHECK_FALSE(made[1].compiled);
  CHECK(!made[2].image);
  CHECK(made[2].compiled);
  CHECK(images(api, {request("bad")})[0].compiled);
  CHECK(FakeNvrtc::compiled == 3);
}

TEST_CASE("threads that ask for one image at a time end up with the same") {
  CountedNvrtc::reset();
  const Api api = test::recording_api();
  constexpr std::size_t kThreads = 8;
  const std::vector<CompileRequest> requests = {request("x"), request("y")};
  std::vector<std::vector<RequestedImage>> made(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto load = []() noexcept -> ai::Result<const NvrtcApi*> {
        static const NvrtcApi table = FakeNvrtc::api();
        return &table;
      };
      made[i] = kernel_images(api, load, CubinStore(""), requests).value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 1; i < kThreads; ++i) {
    for (std::size_t j = 0; j < 2; ++j) CHECK(made[i][j].image->get() == made[0][j].image->get());
  }
}
