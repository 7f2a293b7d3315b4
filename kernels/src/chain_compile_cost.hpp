#pragma once

#include <vector>

#include "kernels/chain_form.hpp"

namespace ai::kernels::chain {

/// Seconds for which NVRTC keeps a core busy with the kernel of a form, by a crude estimate: the
/// code of the slab kernel grows with its layers and with what a thread multiplies.
[[nodiscard]] double compile_seconds(const Network& network, const Form& form);

/// Of `forms`, the best first, those that two cores can be expected to compile in less than 3 s all
/// together, in their order. May throw std::bad_alloc.
[[nodiscard]] std::vector<Form> compiled_in_time(const Network& network, std::vector<Form> forms);

}  // namespace ai::kernels::chain
