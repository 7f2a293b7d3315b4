// The libraries themselves. They need no GPU to load, to report versions, or to compile.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/lt_api.hpp"
#include "cuda/nvrtc_api.hpp"

using ai::Result;
using ai::Status;
using ai::StatusCode;
using namespace ai::cuda;

namespace {
std::atomic<int> opens{0};

Result<const NvrtcApi*> nvrtc_after_ten_threads() {
  std::vector<std::thread> threads;
  std::atomic<const NvrtcApi*> seen{nullptr};
  std::atomic<bool> same{true};
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&] {
      const Result<const NvrtcApi*> api = nvrtc_api();
      const NvrtcApi* expected = nullptr;
      const NvrtcApi* mine = api.ok() ? *api : nullptr;
      if (!seen.compare_exchange_strong(expected, mine) && expected != mine) same = false;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(same);
  return nvrtc_api();
}

struct Compiled {
  Status status;
  std::string cubin;
  std::string log;
  std::string lowered;
};

Compiled compile(const NvrtcApi& nvrtc, const char* source, const char* name) {
  Compiled result;
  nvrtcProgram program = nullptr;
  REQUIRE(nvrtc.create_program(&program, source, "test.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS);
  REQUIRE(nvrtc.add_name_expression(program, name) == NVRTC_SUCCESS);
  const char* options[] = {"-arch=sm_90", "-std=c++20"};
  result.status =
      to_status(nvrtc, nvrtc.compile_program(program, 2, options), "nvrtcCompileProgram");
  std::size_t size = 0;
  REQUIRE(nvrtc.get_program_log_size(program, &size) == NVRTC_SUCCESS);
  result.log.resize(size);
  REQUIRE(nvrtc.get_program_log(program, result.log.data()) == NVRTC_SUCCESS);
  if (result.status.ok()) {
    REQUIRE(nvrtc.get_cubin_size(program, &size) == NVRTC_SUCCESS);
    result.cubin.resize(size);
    REQUIRE(nvrtc.get_cubin(program, result.cubin.data()) == NVRTC_SUCCESS);
    const char* lowered = nullptr;
    REQUIRE(nvrtc.get_lowered_name(program, name, &lowered) == NVRTC_SUCCESS);
    result.lowered = lowered;
  }
  CHECK(nvrtc.destroy_program(&program) == NVRTC_SUCCESS);
  return result;
}

}  // namespace

// Stands before the C library's: every dlopen of this program is counted.
extern "C" void* dlopen(const char* file, int flags) noexcept {
  using Open = void* (*)(const char*, int);
  static const Open next = reinterpret_cast<Open>(::dlsym(RTLD_NEXT, "dlopen"));
  if (file != nullptr && (std::string_view(file).find("libcublasLt") != std::string_view::npos ||
                          std::string_view(file).find("libnvrtc.so") != std::string_view::npos)) {
    ++opens;
  }
  return next(file, flags);
}

TEST_CASE("cuBLASLt loads here, reports its version, and is looked for once") {
  const int before = opens;
  const Result<const LtApi*> lt = lt_api();
  REQUIRE_MESSAGE(lt.ok(), lt.status().to_string());
  CHECK(opens > before);
  const int after = opens;
  CHECK((*lt)->get_version() / 10000 == 13);
  const Result<const LtApi*> again = lt_api();
  REQUIRE(again.ok());
  CHECK(*again == *lt);
  CHECK(opens == after);
}

TEST_CASE("cuBLASLt's descriptors work without a GPU") {
  const Result<const LtApi*> lt = lt_api();
  REQUIRE(lt.ok());
  cublasLtMatrixLayout_t layout = nullptr;
  CHECK((*lt)->matrix_layout_create(&layout, CUDA_R_32F, 4, 4, 4) == CUBLAS_STATUS_SUCCESS);
  CHECK((*lt)->matrix_layout_destroy(layout) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("a cuBLASLt status becomes ours and names call and code") {
  const Result<const LtApi*> lt = lt_api();
  REQUIRE(lt.ok());
  CHECK(to_status(**lt, CUBLAS_STATUS_SUCCESS, "cublasLtMatmul").ok());
  const Status unsupported = to_status(**lt, CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul");
  CHECK(unsupported.code() == StatusCode::Unsupported);
  CHECK(unsupported.message() == "cublasLtMatmul failed: CUBLAS_STATUS_NOT_SUPPORTED (15)");
  CHECK(to_status(**lt, CUBLAS_STATUS_ARCH_MISMATCH, "c").code() == StatusCode::Unsupported);
  CHECK(to_status(**lt, CUBLAS_STATUS_ALLOC_FAILED, "c").code() == StatusCode::OutOfMemory);
  CHECK(to_status(**lt, CUBLAS_STATUS_INTERNAL_ERROR, "c").code() == StatusCode::CudaError);
}

TEST_CASE("NVRTC loads here once, though ten threads ask at the same time") {
  const int before = opens;
  const Result<const NvrtcApi*> nvrtc = nvrtc_after_ten_threads();
  REQUIRE_MESSAGE(nvrtc.ok(), nvrtc.status().to_string());
  CHECK(opens - before >= 2);  // "is it there already?", then the load
  const int after = opens;
  CHECK(nvrtc_api().ok());
  CHECK(opens == after);
  int major = 0;
  int minor = 0;
  CHECK((*nvrtc)->version(&major, &minor) == NVRTC_SUCCESS);
  CHECK(major == 13);
}

TEST_CASE("NVRTC compiles a kernel for sm_90 to a cubin") {
  const Result<const NvrtcApi*> nvrtc = nvrtc_api();
  REQUIRE(nvrtc.ok());
  const Compiled good =
      compile(**nvrtc, "template <int kN> __global__ void set(float* x) { x[threadIdx.x] = kN; }",
              "set<7>");
  CHECK_MESSAGE(good.status.ok(), good.log);
  CHECK(
      good.cubin.starts_with("\x7f"
                             "ELF"));
  CHECK(good.cubin.find(good.lowered) != std::string::npos);
  CHECK(good.lowered != "set<7>");
}

TEST_CASE("a kernel that does not compile is a CudaError with a log") {
  const Result<const NvrtcApi*> nvrtc = nvrtc_api();
  REQUIRE(nvrtc.ok());
  const Compiled bad = compile(**nvrtc, "__global__ void set(float* x) { nonsense; }", "set");
  CHECK(bad.status.code() == StatusCode::CudaError);
  CHECK(bad.status.message() == "nvrtcCompileProgram failed: NVRTC_ERROR_COMPILATION (6)");
  CHECK(bad.log.find("nonsense") != std::string::npos);
  CHECK(to_status(**nvrtc, NVRTC_ERROR_OUT_OF_MEMORY, "c").code() == StatusCode::OutOfMemory);
}
