#pragma once

#include "ai/backend.hpp"
#include "ai/capture.hpp"
#include "capture/lowering.hpp"
#include "capture/tuner.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// ai::capture on the CUDA target, over any runtime and backend; the executable asks for a backend
/// again where steps are made anew. Precondition: the program is not empty and its tensors are
/// Device::CUDA. May throw std::bad_alloc.
[[nodiscard]] Result<Executable> capture_with(const cuda::Api& api,
                                              const BackendMaker& make_backend,
                                              const Program& program, const CaptureOptions& options,
                                              const TunerSettings& tuner);
/// The same with a backend that outlives the executable and is not used by two threads.
[[nodiscard]] Result<Executable> capture_with(const cuda::Api& api, Backend& backend,
                                              const Program& program, const CaptureOptions& options,
                                              const TunerSettings& tuner);

/// The tuner's settings that `options` ask for.
[[nodiscard]] TunerSettings tuner_settings(const CaptureOptions& options);

/// Ok if there is a driver and a device; else why not.
[[nodiscard]] Status cuda_available(const cuda::Api& api);

/// Whether `tensor` lies where it says: in device or managed memory of `device`, or (Device::CPU,
/// the host side of a copy) in pinned host memory. DeviceMismatch otherwise; the message starts
/// with "points to ...", for the operand's name to stand before it. Ok where it is empty or
/// symbolic. May throw std::bad_alloc, as may the next.
[[nodiscard]] Status check_pointer(const cuda::Api& api, const Tensor& tensor, int device);

/// The same for every operand of `program`; names the first that lies elsewhere.
[[nodiscard]] Status check_pointers(const cuda::Api& api, const Program& program);

}  // namespace ai::detail
