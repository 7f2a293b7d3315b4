#include "fused_step.hpp"

#include <utility>
#include <vector>

#include "kernels/launch.hpp"

namespace ai::kernels {
namespace {

std::vector<MemoryRange> reads_of(const FusedCall& call) {
  std::vector<MemoryRange> ranges = {range_of(call.product.l), range_of(call.product.r)};
  if (call.product.beta != 0.0F) ranges.push_back(range_of(call.product.c));
  if (call.bias.data != nullptr) ranges.push_back(range_of(call.bias));
  return ranges;
}

std::vector<MemoryRange> writes_of(const FusedCall& call) {
  std::vector<MemoryRange> ranges = {range_of(call.product.d)};
  if (call.z.data != nullptr) ranges.push_back(range_of(call.z));
  return ranges;
}

FusedCall mapped(const AddressMap& addresses, FusedCall call) {
  using kernels::mapped;
  call.product.l = mapped(addresses, call.product.l);
  call.product.r = mapped(addresses, call.product.r);
  call.product.c = mapped(addresses, call.product.c);
  call.product.d = mapped(addresses, call.product.d);
  call.z = mapped(addresses, call.z);
  call.bias = mapped(addresses, call.bias);
  return call;
}

class FusedStep final : public Step {
 public:
  FusedStep(const cuda::Api& api, const FusedCall& call, const FusedShape& shape, std::string name)
      : Step(std::move(name), reads_of(call), writes_of(call)),
        api_(api),
        call_(call),
        shape_(shape) {}

  // Operands of another recording may be aligned less, or better.
  Status prepare() override {
    FusedForm form = fused_launch(call_, shape_).form;
    for (const FusedLoads loads : {fused_best_loads(call_.product), FusedLoads::Single}) {
      form.loads = loads;
      AI_RETURN_IF_ERROR(load(api_, fused_kernel(call_.act, form)));
    }
    return {};
  }

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    const FusedLaunch now = fused_launch(mapped(addresses, call_), shape_);
    return launch(api_, fused_kernel(call_.act, now.form), now.grid, stream, now.arguments);
  }

 private:
  const cuda::Api& api_;
  FusedCall call_;
  FusedShape shape_;
};

class OuterStep final : public Step {
 public:
  OuterStep(const cuda::Api& api, const FusedCall& call, std::string name)
      : Step(std::move(name), reads_of(call), writes_of(call)), api_(api), call_(call) {}

  Status prepare() override {
    FusedForm form = outer_launch(call_).form;
    for (const FusedLoads loads : {FusedLoads::AlongN, FusedLoads::Single}) {
      form.loads = loads;
      AI_RETURN_IF_ERROR(load(api_, outer_kernel(form)));
    }
    return {};
  }

  Status enqueue(const AddressMap& addresses, Stream stream) override {
    const FusedLaunch now = outer_launch(mapped(addresses, call_));
    return launch(api_, outer_kernel(now.form), now.grid, stream, now.arguments);
  }

 private:
  const cuda::Api& api_;
  FusedCall call_;
};

}  // namespace

std::shared_ptr<Step> make_fused_step(const cuda::Api& api, const FusedCall& call,
                                      const FusedShape& shape, std::string name) {
  return std::make_shared<FusedStep>(api, call, shape, std::move(name));
}

std::shared_ptr<Step> make_outer_step(const cuda::Api& api, const Product& product,
                                      std::string name) {
  FusedCall call;
  call.product = product;
  return std::make_shared<OuterStep>(api, call, std::move(name));
}

}  // namespace ai::kernels
