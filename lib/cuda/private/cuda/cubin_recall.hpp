#pragma once

#include <span>
#include <vector>

#include "ai/status.hpp"
#include "cuda/cubin_store.hpp"
#include "cuda/nvrtc_compile.hpp"

namespace ai::cuda {

/// nvrtc_api(), or what a test puts in its place.
using NvrtcLoader = Result<const NvrtcApi*> (*)() noexcept;

/// What became of one request.
struct RecalledCubin {
  Result<Cubin> cubin;
  bool compiled = false;  ///< the compiler was asked for it, with success or without
  Status problem = {};    ///< why a file in the store is left alone, or none could be kept there
};

/// The cubins of `requests`, in their order: those that `store` has, and all others from NVRTC,
/// several at a time. They are kept in the store, where it can be written. NVRTC is loaded only
/// where something is missing; if it cannot be, each of these fails with the loader's status. Where
/// it is, what another version of it made is compiled anew, too. A damaged file is as good as none.
/// Of equal requests, the first is compiled for all. The call itself fails with OutOfMemory only.
/// Thread-safe.
[[nodiscard]] Result<std::vector<RecalledCubin>> recall_or_compile(
    NvrtcLoader load_nvrtc, const CubinStore& store,
    std::span<const CompileRequest> requests) noexcept;

}  // namespace ai::cuda
