#pragma once

#include <nanobind/nanobind.h>

#include "ai/step.hpp"

namespace ge_python {

namespace nb = nanobind;

/// The stream that `object` means: None the legacy default stream; an int its handle (0 and 1
/// legacy, 2 per-thread); ctypes.c_void_p; a PyCapsule; torch.cuda.Stream (`cuda_stream`), CuPy's
/// (`ptr`), or anything with `__cuda_stream__`. TypeError for bool, float and other types; Invalid
/// for a negative handle or one beyond 64 bits.
[[nodiscard]] ai::Stream stream_of(nb::handle object);

}  // namespace ge_python
