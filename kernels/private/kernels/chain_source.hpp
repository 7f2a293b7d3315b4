#pragma once

#include <span>
#include <string>
#include <vector>

#include "ai/gemm.hpp"
#include "ai/status.hpp"
#include "kernels/chain_layout.hpp"

namespace ai::kernels::chain {

/// A run of forward plans as the chain kernel sees it.
struct Network {
  Input input = {};
  std::vector<Layer> layers = {};
};

/// `plans` are a run: each plan's Y is the next one's A. `keeps_y` says of each Y whether it is to
/// be written; the last one always is. Unsupported, with the reason and the plan's position, for
/// what the kernel cannot do: C (beta != 0), products that are empty or that alpha = 0 leaves out,
/// operands that span 2^31 elements or more.
[[nodiscard]] Result<Network> network_of(std::span<const GemmPlan> plans,
                                         const std::vector<bool>& keeps_y);

/// The kernel's one argument: the addresses of x, then of every layer's W, bias, Y and Z, in this
/// order; null for what is absent or not written.
[[nodiscard]] std::vector<void*> arguments_of(std::span<const GemmPlan> plans,
                                              const Network& network);

/// What the kernel is called in a compiled image.
inline constexpr const char* kKernelName = "chain_kernel";

/// A kernel's text and what it is specialised by, beside the network.
struct Specification {
  const char* layout = nullptr;  ///< header with the type of the shape
  const char* type = nullptr;    ///< of the shape
  std::string shape = {};        ///< its initializer, "{1, 8, 256}"
  const char* kernel = nullptr;  ///< file with the kernel
  /// Whether Layer::w16 and the like make a difference. Else the text says false, so that networks
  /// that differ in nothing else have one kernel.
  bool knows_alignment = false;
};

/// The text to compile for one network.
[[nodiscard]] std::string source_of(const Network& network, const Specification& specification);

/// Files that the text includes.
struct Header {
  const char* name;
  const char* text;
};
[[nodiscard]] std::span<const Header> headers() noexcept;

/// Options of the run-time compiler, apart from the architecture.
[[nodiscard]] std::span<const char* const> options() noexcept;

/// What a shape may use of a device.
struct Limits {
  int shared_bytes = 0;  ///< of a block
  int registers = 0;     ///< of a thread, 255 at most
  int cluster = 1;       ///< blocks at most; 1 where the device has no clusters
};

}  // namespace ai::kernels::chain
