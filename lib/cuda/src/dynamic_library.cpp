#include "cuda/dynamic_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace ai::cuda {
namespace {

namespace fs = std::filesystem;

std::string value_of(const LoaderApi& loader, const char* variable) {
  const char* value = loader.environment(variable);
  return value == nullptr ? std::string() : std::string(value);
}

/// The folders of set_site_packages.
struct NamedSites {
  std::mutex mutex;
  std::vector<std::string> folders;
};
NamedSites& named_sites() {
  static NamedSites& sites = *new NamedSites;  // never destroyed: static objects may load libraries
  return sites;
}

std::vector<std::string> named_folders() {
  NamedSites& sites = named_sites();
  const std::scoped_lock lock(sites.mutex);
  return sites.folders;
}

// <prefix>/lib/python3.X/{site,dist}-packages, those that exist.
void add_site_packages(const std::string& prefix, std::vector<std::string>& sites) {
  if (prefix.empty()) return;
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator it(prefix + "/lib", error), end; !error && it != end;
       it.increment(error)) {
    if (!it->path().filename().string().starts_with("python3")) continue;
    for (const char* folder : {"site-packages", "dist-packages"}) {
      std::error_code ignored;
      if (fs::is_directory(it->path() / folder, ignored)) {
        found.push_back((it->path() / folder).string());
      }
    }
  }
  std::sort(found.begin(), found.end());
  sites.insert(sites.end(), found.begin(), found.end());
}

std::vector<std::string> site_packages(const LoaderApi& loader) {
  std::vector<std::string> sites;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"}) {
    add_site_packages(value_of(loader, variable), sites);
  }
  const std::string python_path = value_of(loader, "PYTHONPATH");
  for (std::string_view rest = python_path; !rest.empty();) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    if (colon != 0) sites.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  const std::string home = value_of(loader, "HOME");
  if (!home.empty()) add_site_packages(home + "/.local", sites);
  add_site_packages("/usr/local", sites);
  return sites;
}

// The folder of `place`; of NVIDIA's wheels all, since another major version may have one of its
// own.
std::vector<fs::path> folders_near(const fs::path& place) {
  const fs::path folder = place.parent_path();
  const fs::path wheels = folder.parent_path().parent_path();
  if (wheels.filename() != "nvidia") return {folder};
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator it(wheels, error), end; !error && it != end; it.increment(error)) {
    folders.push_back(it->path() / "lib");
  }
  return folders;
}

// "libcublasLt.so.12" where `folder` holds that and `soname` wants .13.
void add_other_versions(const fs::path& folder, std::string_view soname,
                        std::set<std::string>& found) {
  const std::string_view stem = soname.substr(0, soname.rfind('.') + 1);
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    const std::string_view version =
        std::string_view(file).substr(std::min(stem.size(), file.size()));
    if (file.starts_with(stem) && !version.empty() && file != soname &&
        version.find_first_not_of("0123456789") == std::string_view::npos) {
      found.insert(it->path().string());
    }
  }
}

// What the loader said, naming `place` once.
std::string complaint(const LoaderApi& loader, const std::string& place) {
  const char* text = loader.error();
  std::string said = text == nullptr ? "no reason given" : text;
  return said.starts_with(place) ? said : place + ": " + said;
}

}  // namespace

const LoaderApi& system_loader() noexcept {
  static constexpr LoaderApi kLoader{&::dlopen, &::dlsym, &::dlerror, &::getenv};
  return kLoader;
}

std::vector<std::string> library_places(const LibraryName& name, const LoaderApi& loader) {
  std::vector<std::string> places;
  const auto add = [&](const std::string& folder) {
    std::string place = folder + "/" + name.soname;
    if (std::find(places.begin(), places.end(), place) == places.end()) {
      places.push_back(std::move(place));
    }
  };
  const std::string_view soname = name.soname;
  const std::string toolkit_wheel =
      "nvidia/cu" + std::string(soname.substr(soname.rfind('.') + 1)) + "/lib";
  const auto add_wheels = [&](const std::vector<std::string>& sites) {
    for (const std::string& site : sites) {
      add(site + "/" + toolkit_wheel);
      add(site + "/" + name.wheel);
    }
  };
  add_wheels(named_folders());
  places.emplace_back(name.soname);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = value_of(loader, variable);
    if (root.empty()) continue;
    add(root + "/lib64");
    add(root + "/lib");
  }
  if (const std::string conda = value_of(loader, "CONDA_PREFIX"); !conda.empty()) {
    add(conda + "/lib");
  }
#ifdef AI_CUDA_TOOLKIT_LIBRARY_DIR
  add(AI_CUDA_TOOLKIT_LIBRARY_DIR);
#endif
  add("/usr/local/cuda/lib64");
  add("/usr/local/cuda/targets/x86_64-linux/lib");
  add_wheels(site_packages(loader));
  return places;
}

void set_site_packages(std::vector<std::string> folders) {
  NamedSites& sites = named_sites();
  const std::scoped_lock lock(sites.mutex);
  sites.folders.swap(folders);
}

Result<Library> open_library(const LibraryName& name, const LoaderApi& loader) {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
  if (void* handle = loader.open(name.soname, kFlags | RTLD_NOLOAD)) {
    return Library{handle, name.soname};
  }

  std::vector<std::string> places;
  const std::string chosen = value_of(loader, name.variable);
  if (chosen.empty()) {
    places = library_places(name, loader);
  } else {
    places.push_back(chosen);
  }
  std::string said;
  for (const std::string& place : places) {
    if (void* handle = loader.open(place.c_str(), kFlags)) return Library{handle, place};
    said += "\n  " + complaint(loader, place);
  }

  const std::string_view soname = name.soname;
  std::string message = std::string(name.title) + " could not be loaded: " + name.soname +
                        " (major version " + std::string(soname.substr(soname.rfind('.') + 1)) +
                        ") is wanted; ";
  if (chosen.empty()) {
    message += "set " + std::string(name.variable) + " to its full path. Searched:";
  } else {
    message += std::string(name.variable) + " names the only file tried:";
  }
  message += said;
  std::set<std::string> others;
  for (const std::string& place : places) {
    if (place.find('/') == std::string::npos) continue;
    for (const fs::path& folder : folders_near(place)) add_other_versions(folder, soname, others);
  }
  for (const std::string& file : others) message += "\n  found another version: " + file;
  return Status(StatusCode::Unsupported, std::move(message));
}

Status check_major(const LibraryName& name, const Library& library, int wanted_major,
                   int loaded_major, const std::string& loaded_version) {
  if (loaded_major == wanted_major) return {};
  return {StatusCode::Unsupported, std::string(name.title) + " " + loaded_version + " (" +
                                       library.place + ") was loaded, but major version " +
                                       std::to_string(wanted_major) + " is wanted"};
}

}  // namespace ai::cuda
