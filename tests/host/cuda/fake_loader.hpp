#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/dynamic_library.hpp"
#include "cuda/lt_api.hpp"
#include "cuda/nvrtc_api.hpp"
#include "support/temporary_folder.hpp"

namespace ai::cuda::test {

namespace fs = std::filesystem;

constexpr LibraryName kName{"Thing", "libthing.so.13", "THING_LIBRARY", "nvidia/thing/lib"};

// A file system of one's own: which files open, and what was asked for.
struct World {
  std::set<std::string> files;
  std::set<std::string> loaded;
  std::map<std::string, std::string> variables;
  std::vector<std::string> opened;
  std::string error;
  std::string missing_symbol;
  int version = 130100;
};
inline World world;
inline int handle = 0;

inline LoaderApi fake_loader() {
  world = {};
  return {.open = [](const char* file, int flags) -> void* {
            const bool only_if_loaded = (flags & RTLD_NOLOAD) != 0;
            if (!only_if_loaded) world.opened.emplace_back(file);
            const auto& there = only_if_loaded ? world.loaded : world.files;
            if (there.contains(file)) return &handle;
            world.error = std::string(file) + ": cannot open it";
            return nullptr;
          },
          .symbol = [](void*, const char* name) -> void* {
            if (world.missing_symbol == name) return nullptr;
            if (std::string(name) == "cublasLtGetVersion") {
              return reinterpret_cast<void*>(+[] { return std::size_t(world.version); });
            }
            if (std::string(name) == "nvrtcVersion") {
              return reinterpret_cast<void*>(+[](int* major, int* minor) {
                *major = world.version / 10000;
                *minor = world.version / 100 % 100;
                return NVRTC_SUCCESS;
              });
            }
            return &handle;
          },
          .error = [] { return world.error.data(); },
          .environment = [](const char* variable) -> char* {
            const auto found = world.variables.find(variable);
            return found == world.variables.end() ? nullptr : found->second.data();
          }};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Names them for a test.
struct NamedSites {
  explicit NamedSites(std::vector<std::string> folders) { set_site_packages(std::move(folders)); }
  ~NamedSites() { set_site_packages({}); }
  NamedSites(const NamedSites&) = delete;
  NamedSites& operator=(const NamedSites&) = delete;
};

}  // namespace ai::cuda::test
