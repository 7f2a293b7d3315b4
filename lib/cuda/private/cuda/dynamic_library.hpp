#pragma once

#include <string>
#include <vector>

#include "ai/status.hpp"

namespace ai::cuda {

/// What loading a library calls. A test puts its own functions here.
struct LoaderApi {
  void* (*open)(const char* file, int flags);        ///< dlopen
  void* (*symbol)(void* library, const char* name);  ///< dlsym
  char* (*error)();                                  ///< dlerror
  char* (*environment)(const char* variable);        ///< getenv
};
[[nodiscard]] const LoaderApi& system_loader() noexcept;

/// A library that is loaded on first need instead of linked.
struct LibraryName {
  const char* title;     ///< "cuBLASLt"
  const char* soname;    ///< "libcublasLt.so.13"; its number is the major version wanted
  const char* variable;  ///< environment variable that gives the file's full path
  const char* wheel;     ///< where NVIDIA's wheel of it puts the file, "nvidia/cublas/lib"
};

/// The files that are tried, in order, where neither the process has the library already nor its
/// environment variable names a file: NVIDIA's wheels in the folders given to set_site_packages,
/// the loader's own search (the bare soname), CUDA_HOME and CUDA_PATH, the lib of CONDA_PREFIX, the
/// toolkit this library was built with, /usr/local/cuda, and NVIDIA's wheels in the Python
/// environments that VIRTUAL_ENV, CONDA_PREFIX, PYTHONHOME, PYTHONPATH and HOME point to and in
/// /usr/local.
[[nodiscard]] std::vector<std::string> library_places(const LibraryName& name,
                                                      const LoaderApi& loader);

/// Names Python environments (site-packages folders) in which NVIDIA's wheels are looked for before
/// anywhere else: an interpreter knows its own, and what it imports later (torch) finds its wheels
/// there too, so that the process has one version whichever of them comes first. Replaces what was
/// named before. Thread-safe; what is loaded stays, as does a failure to load. May throw
/// std::bad_alloc.
void set_site_packages(std::vector<std::string> folders);

/// A loaded library. Never unloaded: the handle is good until the process ends.
struct Library {
  void* handle = nullptr;
  std::string place;  ///< the file asked for, or the soname where the loader found it
};

/// Loads `name`, or finds it in the process. A file named by the environment variable is the only
/// one tried. Failure is Unsupported; the message names soname, every place and what the loader
/// said of it, and other major versions seen there. May throw std::bad_alloc.
[[nodiscard]] Result<Library> open_library(const LibraryName& name, const LoaderApi& loader);

/// Sets `function` to the library's `symbol`; Unsupported where it has none.
template <typename Function>
[[nodiscard]] Status resolve(const LoaderApi& loader, const Library& library, const char* symbol,
                             Function*& function) {
  function = reinterpret_cast<Function*>(loader.symbol(library.handle, symbol));
  if (function != nullptr) return {};
  return {StatusCode::Unsupported, library.place + " has no function " + symbol};
}

/// Ok where `loaded_major` is `wanted_major`, else Unsupported, naming both.
[[nodiscard]] Status check_major(const LibraryName& name, const Library& library, int wanted_major,
                                 int loaded_major, const std::string& loaded_version);

}  // namespace ai::cuda
