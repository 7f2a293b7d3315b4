#pragma once

#include <optional>
#include <string>
#include <utility>

#include "ai/status.hpp"
#include "cuda/nvrtc_compile.hpp"

namespace ai::cuda {

/// What a request is known by in a store: 32 hexadecimal digits over its source, name, headers,
/// options and architecture, and over the CUDA version that the library was built with. A program
/// that finds all its cubins thereby needs no NVRTC, not even to ask for its version. A cubin tells
/// which one made it, and recall_or_compile() replaces those of others where it compiles something.
/// May throw std::bad_alloc.
[[nodiscard]] std::string cubin_key(const CompileRequest& request);

/// Cubins in the files of a folder, <key>.cubin, for later processes. Code from there is run: a
/// folder, or a file in it, that is not the user's own or that others may write to is left alone.
/// Files are replaced as a whole, so that processes and threads may use one folder at once.
/// Thread-safe. Nothing is ever removed.
class CubinStore {
 public:
  /// `folder` is made when something is kept. Empty: nothing is kept or found.
  explicit CubinStore(std::string folder) noexcept : folder_(std::move(folder)) {}

  struct Found {
    std::optional<Cubin> cubin = {};  ///< compile_s is 0
    Status problem = {};              ///< why a file that is there is no good
  };
  [[nodiscard]] Found find(const std::string& key) const noexcept;

  /// Unsupported, with the reason, where it cannot be written.
  [[nodiscard]] Status keep(const std::string& key, const Cubin& cubin) const noexcept;

  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }

 private:
  std::string folder_;
};

}  // namespace ai::cuda
