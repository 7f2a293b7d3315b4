#pragma once

#include <cstddef>
#include <cstdint>

#include "ai/gemm.hpp"
#include "ai/status.hpp"
#include "ai/step.hpp"

/// The direct path: a call is validated and enqueued at once, without a program. For calls that
/// come once, whose operands move, or that the caller captures.
///
/// What was planned for a problem (shapes, leading dimensions, attributes, alignments of the
/// pointers) is kept and serves every later call that poses it, whatever its pointers; a call then
/// costs little more than the launches of its kernels. The first call for a problem loads
/// libraries and kernels, may read the tuning file (tuning_cache_path) and may wait for the device.
/// The candidate that the file knows for the problem is taken; where it knows none, or there is no
/// file, candidates are chosen as by capture with Tuning::Off. Nothing is measured or stored here.
/// Results are bitwise those of a replay with the same candidates.
///
/// A call that a thread makes again and again over the same pointers is launched as a graph from
/// the eighth time on, which costs the host less than one kernel launch. The eighth call makes that
/// graph and takes longer, once; where it cannot be made, the call stays as it was. Results are
/// bitwise the same. Launches of one graph run one after the other, also on several streams: what
/// one of them waits for on its stream must not depend on one that is made after it. A graph has
/// scratch of its own (calls with more than 1 MiB of it get none) and takes driver memory of about
/// 100 KiB. A thread keeps the graphs of its last 32 calls, all threads together at most 256
/// (set_graph_limit); they go with the thread, when other calls take their place, and at the
/// thread's next call after clear_plan_cache or set_plan_cache_limit, without waiting for launches.
///
/// The first call for a problem and the one that makes a graph record work on a private stream. As
/// with capture, cudaDeviceSynchronize in another thread at that moment is refused by CUDA; where
/// other threads do that at any time, warm up first and set_graph_limit(0), or synchronise streams.
///
/// Where a pointer lives is asked of CUDA when a thread first sees it, until clear_plan_cache.
/// Scratch comes from one block a stream, which is kept for up to 64 streams. Any number of threads
/// may call at once, on one stream or on several; a stream may be destroyed as soon as the caller
/// has no more use for it.
///
/// A stream that is being captured by the caller is recorded into, and that capture is left intact.
/// Candidates without scratch are preferred there, so that bits may differ from those outside;
/// where scratch cannot be avoided (gZ of a backward call with an activation) the caller's graph
/// retains a block of its own, which makes its launches dearer (docs/results/gpu-tests.md).
///
/// On Device::CPU tensors the call is done when it returns, in double precision, and `stream` is
/// ignored: a reference, not a quick road.
///
/// Errors: those of plan_forward and plan_backward; DeviceMismatch (a pointer or the stream that
/// belongs elsewhere); OutOfMemory; Unsupported (no GPU, no driver, library missing);
/// CaptureActive (the legacy stream while a blocking stream is being captured); CaptureInvalidated
/// (the caller's capture of the stream is broken already); CudaError. After a CUDA error some of
/// the outputs may have been written.
namespace ai::gemm {

/// `stream` null: the legacy default stream. Operands must stay alive until the work is done.
[[nodiscard]] Status forward(const GemmForward& call, Stream stream) noexcept;
[[nodiscard]] Status backward(const GemmBackward& call, Stream stream) noexcept;

/// The same with the operands one by one; null: absent. With beta != 0, C is what Y holds, as in
/// BLAS: Y = act(alpha * op(A) op(B) + beta * Y + bias).
[[nodiscard]] Status forward(const Tensor& A, const Tensor& B, const Tensor* bias, const Tensor& Y,
                             const GemmAttrs& attrs, Stream stream,
                             const Tensor* Z = nullptr) noexcept;
/// The same with the operands one by one; null: absent. Gradients replace what their tensors hold.
[[nodiscard]] Status backward(const Tensor& A, const Tensor& B, const Tensor* C, const Tensor& gY,
                              const Tensor* Z, const Tensor* gA, const Tensor* gB, const Tensor* gC,
                              const Tensor* gBias, const GemmAttrs& attrs, Stream stream) noexcept;

/// What the direct path keeps, in this process.
struct PlanCacheInfo {
  std::size_t plans = 0;           ///< problems planned and kept
  std::size_t limit = 0;           ///< how many at most; the one longest unused goes first
  std::uint64_t planned = 0;       ///< problems planned so far, kept or not
  std::size_t scratch_blocks = 0;  ///< streams with scratch
  std::size_t scratch_bytes = 0;   ///< device memory in them
  std::size_t graphs = 0;          ///< of calls that are made again and again, of all threads
  std::size_t graph_limit = 0;     ///< how many at most
};
[[nodiscard]] PlanCacheInfo plan_cache() noexcept;
/// 1024 at first. 0: nothing is kept, every call plans.
void set_plan_cache_limit(std::size_t plans) noexcept;
/// 256 at first. 0: no call is made a graph, and only the first for a problem records anything.
/// Where there are more already, all go: this thread's at once, another's at its next call.
void set_graph_limit(std::size_t graphs) noexcept;
/// Forgets every plan (another thread's last ones when it next calls) and gives scratch back behind
/// the work that uses it: that of a stream with many calls by its next one, since only then its end
/// is known. Graphs go with the plans. May be called at any time, also while other threads call.
void clear_plan_cache() noexcept;

}  // namespace ai::gemm
