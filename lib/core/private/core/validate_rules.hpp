#pragma once

#include "core/validate.hpp"

/// One function a rule, shared by both directions. Each is pure, looks at nothing but the call, and
/// relies on the rules that stand before it in the table for what its message says, never for its
/// own safety. All may throw std::bad_alloc.
namespace ai::validation::rules {

// Attributes (validate_attrs.cpp)
[[nodiscard]] Status act(const Call& call);        ///< a known ActKind
[[nodiscard]] Status precision(const Call& call);  ///< a known Precision
[[nodiscard]] Status alpha(const Call& call);      ///< finite
[[nodiscard]] Status beta(const Call& call);       ///< finite
[[nodiscard]] Status slope(const Call& call);      ///< finite where act is LeakyReLU
[[nodiscard]] Status grad_mode(const Call& call);  ///< a known GradMode

// Which operands are there (validate_attrs.cpp)
[[nodiscard]] Status required(const Call& call);      ///< A, B and Y (gY) are not default-made
[[nodiscard]] Status with_bias(const Call& call);     ///< forward: asks for bias
[[nodiscard]] Status save_z(const Call& call);        ///< forward: asks for Z
[[nodiscard]] Status forward_c(const Call& call);     ///< beta != 0 asks for C
[[nodiscard]] Status backward_c(const Call& call);    ///< gC asks for C
[[nodiscard]] Status backward_z(const Call& call);    ///< act other than None asks for Z
[[nodiscard]] Status any_gradient(const Call& call);  ///< backward: something to do

// What they are (validate_shape.cpp)
[[nodiscard]] Status device_kind(const Call& call);   ///< a known Device
[[nodiscard]] Status device_index(const Call& call);  ///< not negative
[[nodiscard]] Status device(const Call& call);        ///< all on A's device
[[nodiscard]] Status dtype_kind(const Call& call);    ///< a known DType
[[nodiscard]] Status dtype(const Call& call);         ///< F32
[[nodiscard]] Status layout_kind(const Call& call);   ///< a known Layout
[[nodiscard]] Status layout(const Call& call);        ///< RowMajor
[[nodiscard]] Status rank(const Call& call);          ///< matrices 2, bias and gBias 1 or 2
[[nodiscard]] Status stride_rank(const Call& call);   ///< one stride an extent
[[nodiscard]] Status extents(const Call& call);       ///< not negative
[[nodiscard]] Status shape(const Call& call);         ///< matrices against M, N and K
[[nodiscard]] Status bias_shape(const Call& call);    ///< bias and gBias are of some kind

// How they lie in memory (validate_memory.cpp)
[[nodiscard]] Status expanded(const Call& call);      ///< no stride 0 along several elements
[[nodiscard]] Status inner_stride(const Call& call);  ///< 1 where there are several columns
[[nodiscard]] Status leading_dimension(
    const Call& call);                               ///< >= width where there are several rows
[[nodiscard]] Status bias_stride(const Call& call);  ///< >= 1 where there are several elements
[[nodiscard]] Status span(const Call& call);         ///< bytes and end address fit 64 bits
[[nodiscard]] Status null_data(const Call& call);    ///< only where there is no element
[[nodiscard]] Status alignment(const Call& call);    ///< 4 bytes
[[nodiscard]] Status overlap(const Call& call);      ///< outputs share no byte; C may be Y

}  // namespace ai::validation::rules
