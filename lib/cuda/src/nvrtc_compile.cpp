#include "cuda/nvrtc_compile.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "core/text.hpp"

namespace ai::cuda {
namespace {

constexpr int kLogLines = 8;  // of a message
constexpr std::size_t kLogBytes = 1000;

/// A program that is destroyed.
class Program {
 public:
  explicit Program(const NvrtcApi& nvrtc) noexcept : nvrtc_(nvrtc) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_ != nullptr) (void)nvrtc_.destroy_program(&program_);
  }
  [[nodiscard]] nvrtcProgram* made() noexcept { return &program_; }
  [[nodiscard]] nvrtcProgram get() const noexcept { return program_; }

 private:
  const NvrtcApi& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

std::string first_lines(std::string_view log) {
  std::size_t end = 0;
  for (int line = 0; line < kLogLines && end < log.size(); ++line) {
    const std::size_t next = log.find('\n', end);
    end = next == std::string_view::npos ? log.size() : next + 1;
  }
  log = log.substr(0, std::min(end, kLogBytes));
  while (!log.empty() && (log.back() == '\n' || log.back() == ' ')) log.remove_suffix(1);
  return std::string(log);
}

/// The log as it is; empty where it cannot be had, which hides no failure.
std::string log_of(const NvrtcApi& nvrtc, nvrtcProgram program) {
  std::size_t size = 0;
  if (nvrtc.get_program_log_size(program, &size) != NVRTC_SUCCESS || size <= 1) return {};
  std::string log(size, '\0');
  if (nvrtc.get_program_log(program, log.data()) != NVRTC_SUCCESS) return {};
  log.resize(std::min(log.find('\0'), log.size()));
  return log;
}

Status named(const CompileRequest& request, const Status& status, const std::string& log) {
  const std::string lines = first_lines(log);
  return {status.code(),
          text(request.name, ": ", status.message(), lines.empty() ? "" : ": ", lines)};
}

Status compile_into(const NvrtcApi& nvrtc, const CompileRequest& request, Cubin& cubin,
                    std::string& log) {
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const CompileRequest::Header& header : request.headers) {
    names.push_back(header.name.c_str());
    texts.push_back(header.text.c_str());
  }
  const std::string architecture = architecture_option(request);
  std::vector<const char*> options{architecture.c_str(), "--ptxas-options=-v"};
  for (const std::string& option : request.options) options.push_back(option.c_str());

  const Result<int> version = nvrtc_version(nvrtc);
  AI_RETURN_IF_ERROR(version.status());
  cubin.nvrtc_version = *version;
  Program program(nvrtc);
  AI_RETURN_IF_ERROR(
      to_status(nvrtc,
                nvrtc.create_program(program.made(), request.source.c_str(), request.name.c_str(),
                                     static_cast<int>(names.size()), texts.data(), names.data()),
                "nvrtcCreateProgram"));
  const nvrtcResult compiled =
      nvrtc.compile_program(program.get(), static_cast<int>(options.size()), options.data());
  log = log_of(nvrtc, program.get());
  AI_RETURN_IF_ERROR(to_status(nvrtc, compiled, "nvrtcCompileProgram"));
  std::size_t size = 0;
  AI_RETURN_IF_ERROR(
      to_status(nvrtc, nvrtc.get_cubin_size(program.get(), &size), "nvrtcGetCUBINSize"));
  if (size == 0) return {StatusCode::CudaError, "nvrtcGetCUBINSize gave 0 bytes"};
  cubin.image.resize(size);
  return to_status(nvrtc, nvrtc.get_cubin(program.get(), cubin.image.data()), "nvrtcGetCUBIN");
}

}  // namespace

std::string architecture_option(const CompileRequest& request) {
  return text("-arch=sm_", request.compute_capability, request.arch_specific ? "a" : "");
}

Result<Cubin> compile(const NvrtcApi& nvrtc, const CompileRequest& request) noexcept try {
  const auto start = std::chrono::steady_clock::now();
  Cubin cubin;
  std::string log;
  if (const Status status = compile_into(nvrtc, request, cubin, log); !status.ok()) {
    return named(request, status, log);
  }
  cubin.log = std::move(log);
  cubin.compile_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return cubin;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

Result<std::vector<Result<Cubin>>> compile_all(const NvrtcApi& nvrtc,
                                               std::span<const CompileRequest> requests,
                                               unsigned threads) noexcept try {
  std::vector<Result<Cubin>> outcomes(requests.size(), Status(StatusCode::OutOfMemory, {}));
  std::atomic<std::size_t> next{0};
  const auto work = [&]() noexcept {
    for (std::size_t i = next++; i < requests.size(); i = next++) {
      outcomes[i] = compile(nvrtc, requests[i]);
    }
  };
  const unsigned most = std::max(std::thread::hardware_concurrency(), 1U);
  const std::size_t wanted =
      std::min<std::size_t>(threads == 0 ? most : std::min(threads, most), requests.size());
  std::vector<std::jthread> others;  // joined when it goes out of scope
  try {
    for (std::size_t i = 1; i < wanted; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: those there are do all
  } catch (const std::bad_alloc&) {
  }
  work();
  others.clear();
  return outcomes;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

}  // namespace ai::cuda
