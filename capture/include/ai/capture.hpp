#pragma once

#include <optional>
#include <string>

#include "ai/executable.hpp"
#include "ai/program.hpp"
#include "ai/status.hpp"
#include "ai/tuning.hpp"

namespace ai {

struct CaptureOptions {
  Target target = Target::Auto;  ///< Auto: CUDA for Device::CUDA tensors, Host for Device::CPU
  Tuning tuning = Tuning::Measure;
  /// Wall time for measuring, 0 or more. Of what is timed and checked by then the quickest is
  /// taken; where that is nothing, the first in table order. What is under way then is waited for,
  /// and one short check may follow rather than that all timing was for nothing.
  double tuning_budget_s = 2.0;
  int capture_retries = 3;  ///< how often a capture broken by another thread is begun again
  /// Whether forward plans whose A is the Y of the one before may be carried out by one kernel, and
  /// single ones that have none of their own by one compiled for them. False: every plan has steps
  /// of its own, as by the direct path, e.g. to compare bit by bit.
  bool fuse_layers = true;
  /// Whether such a kernel may be one whose blocks, up to one for each multiprocessor, wait for one
  /// another (a cooperative launch): it begins when all of them have room at once. Beside a kernel
  /// that holds part of the GPU and never ends it would never begin, neither in a replay nor where
  /// capture measures it: say false there.
  bool cooperative_launches = true;
  /// The JSON file that keeps what was measured, for Tuning::Measure and Remeasure; "": none;
  /// nullopt: tuning_cache_path(). Any number of processes and programs may share one.
  std::optional<std::string> tuning_cache = {};
  TuningProgressHandler on_tuning_progress = {};  ///< on the capturing thread; may be empty
  TuningWarningHandler on_tuning_warning = {};    ///< likewise; an exception from either is dropped
};

/// Chooses candidates, plans one workspace, records every step into one CUDA graph and instantiates
/// it; or, on the host target, prepares the same program for the CPU. May be called while the
/// caller captures another stream: it leaves that capture alone. Operand memory must exist, its
/// contents are neither read nor written. The program and its plans may die afterwards; operand
/// memory must outlive the executable.
/// Errors: DeviceMismatch (target against tensors, or a pointer that CUDA places elsewhere),
/// Invalid (empty program, user step without a function for the target, a tuning budget that is
/// negative or NaN), OutOfMemory, Unsupported (no GPU, no driver, library missing),
/// CaptureInvalidated, CudaError, and whatever a user step returns.
[[nodiscard]] Result<Executable> capture(const Program& program,
                                         const CaptureOptions& options = {}) noexcept;

/// Whether programs can be captured for `target` here, and if not why. Auto asks for CUDA.
[[nodiscard]] Status target_available(Target target) noexcept;

}  // namespace ai
