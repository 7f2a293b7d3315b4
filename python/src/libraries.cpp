#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "gil.hpp"
#include "status.hpp"

#if GE_PYTHON_WITH_CUDA
#include <dlfcn.h>

#include "cuda/dynamic_library.hpp"
#include "cuda/lt_api.hpp"
#include "cuda/nvrtc_api.hpp"
#endif

namespace ge_python {
namespace {

/// A library that is loaded at run time; `loaded` and `file` are empty where `error` is not.
struct LibraryReport {
  std::string name, compiled, loaded = {}, file = {}, error = {};
};

#if GE_PYTHON_WITH_CUDA
template <typename Function>
std::string file_of(Function* function) {
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<void*>(function), &info) != 0;
  return known && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::vector<LibraryReport> load_libraries() {
  LibraryReport lt{.name = "cuBLASLt", .compiled = ai::cuda::lt_version_text(CUBLAS_VERSION)};
  if (const auto api = ai::cuda::lt_api(); api.ok()) {
    lt.loaded = ai::cuda::version_text(**api);
    lt.file = file_of((*api)->get_version);
  } else {
    lt.error = api.status().message();
  }
  LibraryReport nvrtc{.name = "NVRTC",
                      .compiled = std::to_string(CUDART_VERSION / 1000) + "." +
                                  std::to_string(CUDART_VERSION / 10 % 100)};
  if (const auto api = ai::cuda::nvrtc_api(); api.ok()) {
    int major = 0, minor = 0;
    (void)(*api)->version(&major, &minor);
    nvrtc.loaded = std::to_string(major) + "." + std::to_string(minor);
    nvrtc.file = file_of((*api)->version);
  } else {
    nvrtc.error = api.status().message();
  }
  return {lt, nvrtc};
}

void set_site_packages(std::vector<std::string> folders) {
  ai::cuda::set_site_packages(std::move(folders));
}
#else
std::vector<LibraryReport> load_libraries() {
  return {};
}
void set_site_packages(const std::vector<std::string>&) {}
#endif

nb::list library_report() {
  std::vector<LibraryReport> reports;
  {
    const WithoutGil released;
    reports = load_libraries();
  }
  nb::list rows;
  for (const LibraryReport& r : reports) {
    rows.append(nb::make_tuple(r.name, r.compiled, r.loaded, r.file, r.error));
  }
  return rows;
}

}  // namespace

void bind_libraries(nb::module_& module) {
  module.def("_set_site_packages", &set_site_packages, nb::arg("folders"),
             "Names the folders in which NVIDIA's wheels are looked for when cuBLASLt or NVRTC is "
             "loaded.");
  module.def("_library_report", &library_report,
             nb::sig("def _library_report() -> list[tuple[str, str, str, str, str]]"),
             "Loads cuBLASLt and NVRTC: name, version compiled against, version loaded, its file, "
             "and the error in place of both.");
}

}  // namespace ge_python
