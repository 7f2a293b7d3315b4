#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "cuda/nvrtc_api.hpp"

namespace ai::cuda::test {

/// A compiler that compiles nothing: its image is the source, and it fails where it is told to.
struct FakeNvrtc {
  static inline std::string_view fails = {};   ///< the function that does
  static inline std::string_view throws = {};  ///< the function that runs out of memory
  static inline std::atomic<int> alive{0};     ///< programs
  static inline std::atomic<int> compiled{0};

  static void reset() {
    fails = {};
    throws = {};
    alive = 0;
    compiled = 0;
  }
  static nvrtcResult outcome(std::string_view function) {
    if (function == throws) throw std::bad_alloc();
    return function == fails ? NVRTC_ERROR_INTERNAL_ERROR : NVRTC_SUCCESS;
  }
  static const char* source_of(nvrtcProgram program) { return reinterpret_cast<char*>(program); }

  static NvrtcApi api() {
    NvrtcApi table{};
    table.version = [](int* major, int* minor) {
      *major = 13;
      *minor = 2;
      return outcome("version");
    };
    table.get_error_string = [](nvrtcResult) -> const char* { return "THE ERROR"; };
    table.create_program = [](nvrtcProgram* program, const char* source, const char*, int,
                              const char* const*, const char* const*) {
      const nvrtcResult made = outcome("create");
      if (made != NVRTC_SUCCESS) return made;
      *program = reinterpret_cast<nvrtcProgram>(::strdup(source));
      ++alive;
      return made;
    };
    table.destroy_program = [](nvrtcProgram* program) {
      ::free(*program);
      *program = nullptr;
      --alive;
      return NVRTC_SUCCESS;
    };
    table.compile_program = [](nvrtcProgram program, int, const char* const*) {
      ++compiled;
      if (std::strcmp(source_of(program), "bad") == 0) return NVRTC_ERROR_COMPILATION;
      return outcome("compile");
    };
    table.get_cubin_size = [](nvrtcProgram program, std::size_t* size) {
      *size = std::strlen(source_of(program));
      return outcome("size");
    };
    table.get_cubin = [](nvrtcProgram program, char* image) {
      std::memcpy(image, source_of(program), std::strlen(source_of(program)));
      return outcome("cubin");
    };
    table.get_program_log_size = [](nvrtcProgram, std::size_t* size) {
      *size = sizeof "the log";
      return outcome("log size");
    };
    table.get_program_log = [](nvrtcProgram, char* log) {
      std::memcpy(log, "the log", sizeof "the log");
      return outcome("log");
    };
    return table;
  }
};

}  // namespace ai::cuda::test
