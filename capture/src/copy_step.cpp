#include "capture/copy_step.hpp"

#include <cstring>

#include "capture/lowering.hpp"

namespace ai::detail {
namespace {

class HostCopyStep final : public Step {
 public:
  explicit HostCopyStep(const CopyStep& copy)
      : Step(name_of(copy), {range_of(copy.from)}, {range_of(copy.to)}), copy_(copy) {}

  Status enqueue(const AddressMap& addresses, Stream) override {
    const MemoryRange from = range_of(addresses(copy_.from));
    const MemoryRange to = range_of(addresses(copy_.to));
    for (std::int64_t row = 0; row < from.rows; ++row) {
      std::memcpy(address(to, row), address(from, row), static_cast<std::size_t>(from.width));
    }
    return {};
  }

 private:
  static void* address(const MemoryRange& range, std::int64_t row) {
    return reinterpret_cast<void*>(range.begin + static_cast<std::uintptr_t>(row * range.pitch));
  }

  CopyStep copy_;
};

}  // namespace

Result<std::shared_ptr<Step>> make_host_copy(const CopyStep& copy) {
  return std::shared_ptr<Step>(std::make_shared<HostCopyStep>(copy));
}

}  // namespace ai::detail
