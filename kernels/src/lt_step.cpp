#include <utility>
#include <vector>

#include "kernels/dry_run.hpp"
#include "kernels/lt_matmul.hpp"

namespace ai::kernels {
namespace {

std::vector<MemoryRange> reads_of(const LtCall& call) {
  const Product& p = call.product;
  std::vector<MemoryRange> ranges = {range_of(p.l), range_of(p.r)};
  if (p.beta != 0.0F) ranges.push_back(range_of(p.c));
  if (call.bias != nullptr) {
    ranges.push_back(range_of(call.bias, static_cast<std::size_t>(p.n()) * sizeof(float)));
  }
  return ranges;
}

std::vector<MemoryRange> writes_of(const LtCall& call, void* workspace, std::size_t bytes) {
  std::vector<MemoryRange> ranges = {range_of(call.product.d)};
  if (bytes > 0) ranges.push_back(range_of(workspace, bytes));
  return ranges;
}

/// Maps `address`, where it is symbolic, to one that a GPU could hold, with the same alignment.
void add_plausible(AddressMap& addresses, const void* address) {
  constexpr std::uintptr_t kPlausible = std::uintptr_t{0x7f00} << 32;
  constexpr std::uintptr_t kLow = (std::uintptr_t{1} << 39) - 1;
  if (!symbolic::is_symbolic(address) || addresses(address) != address) return;
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  addresses.add(value, 1, reinterpret_cast<void*>(kPlausible | (value & kLow)));
}

class LtStep final : public Step {
 public:
  LtStep(std::string name, std::shared_ptr<LtMatmul> matmul, const LtAlgorithm& algorithm,
         void* workspace)
      : Step(std::move(name), reads_of(matmul->call()),
             writes_of(matmul->call(), workspace, algorithm.workspace_bytes)),
        matmul_(std::move(matmul)),
        algorithm_(algorithm),
        workspace_(workspace) {}

  Status prepare() override;

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    void* workspace = workspace_ != nullptr ? addresses(workspace_) : nullptr;
    return matmul_->enqueue(algorithm_, workspace, addresses, stream);
  }

 private:
  std::shared_ptr<LtMatmul> matmul_;
  LtAlgorithm algorithm_;
  void* workspace_;
};

/// Which kernel cuBLASLt takes is known to it alone.
Status LtStep::prepare() {
  const Product& p = matmul_->call().product;
  AddressMap addresses;
  for (const void* operand :
       {static_cast<const void*>(p.l.data), static_cast<const void*>(p.r.data),
        static_cast<const void*>(p.c.data), static_cast<const void*>(p.d.data),
        static_cast<const void*>(matmul_->call().bias), static_cast<const void*>(workspace_)}) {
    add_plausible(addresses, operand);
  }
  return dry_run(matmul_->context().api(), *this, addresses);
}

}  // namespace

std::shared_ptr<Step> make_lt_step(std::string name, std::shared_ptr<LtMatmul> matmul,
                                   const LtAlgorithm& algorithm) {
  void* workspace =
      algorithm.workspace_bytes > 0 ? symbolic::allocate(algorithm.workspace_bytes) : nullptr;
  return std::make_shared<LtStep>(std::move(name), std::move(matmul), algorithm, workspace);
}

}  // namespace ai::kernels
