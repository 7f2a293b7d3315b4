#pragma once

#include "ai/backend.hpp"
#include "ai/gemm.hpp"
#include "cuda/api.hpp"
#include "kernels/task_recall.hpp"

namespace ai::kernels {

/// The ways to do what a backward plan asks of gY and Z alone, in table order:
///   gz    = gY * act'(Z), packed [M,N] f32 at `gz`; null where nobody needs it stored
///   gC    = beta * gZ; exact zeros where beta is 0, as in forward C does not take part then
///   gBias = gZ summed in f64 over the axes the bias was spread along, rounded to f32 once
/// None where there is nothing to do. What `recall` knows is made alone. The task has no name yet.
/// `gz` is symbolic as a rule; the steps own no memory and book their scratch symbolically. Every
/// sum has one fixed order, given by the shape, `sm_count` and (PerM only) by whether all operands
/// are 16-byte aligned.
///
/// Preconditions: `plan` is a backward plan, its device is current. May throw std::bad_alloc. The
/// CUB candidates clear the thread's pending CUDA error here and whenever they are enqueued: CUB
/// takes any error that it finds there for its own.
[[nodiscard]] Task gradient_task(const cuda::Api& api, int sm_count, const GemmPlan& plan, void* gz,
                                 const TaskRecall& recall = {});

}  // namespace ai::kernels
