#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "ai/capture.hpp"
#include "ai/direct.hpp"
#include "array.hpp"
#include "bindings.hpp"
#include "call.hpp"
#include "core/text.hpp"
#include "gil.hpp"
#include "status.hpp"
#include "tensor.hpp"
#if GE_PYTHON_WITH_CUDA
#include "round_trip.hpp"
#endif

namespace ge_python {
namespace {

using namespace nb::literals;

bool given(nb::handle object) {
  return !object.is_none();
}

/// Whether the library takes the array as it lies: rows, or the transpose of rows, without
/// elements that share memory.
bool fits(const Array& array, bool may_transpose) {
  if (std::any_of(array.shape.begin(), array.shape.end(), [](auto n) { return n < 0; })) {
    return true;  // the rules say so
  }
  if (reinterpret_cast<std::uintptr_t>(array.data) % sizeof(float) != 0) return false;
  if (array.rank == 1) return array.shape[0] <= 1 || array.stride[0] >= 1;
  if (array.rank != 2) return true;  // a scalar, or no matrix: the rules say so
  const auto are_rows = [&array](std::size_t outer, std::size_t inner) {
    return (array.shape[inner] <= 1 || array.stride[inner] == 1) &&
           (array.shape[outer] <= 1 || array.stride[outer] >= array.shape[inner]);
  };
  return are_rows(0, 1) || (may_transpose && are_rows(1, 0));
}

/// A host array of float32 that an operand can lie in: the argument, or where its strides are
/// beyond that a packed copy.
struct Input {
  nb::object object = nb::none();
  Array array = {};  ///< of the argument

  Input(nb::handle argument, const char* name, bool may_transpose) {
    if (!given(argument)) return;
    object = nb::borrow(argument);
    array = array_of(argument, name, Hold::Call);
    if (array.device != ai::Device::CPU) {
      raise(ai::StatusCode::DeviceMismatch,
            ai::text(name, " is on ", ai::to_string(array.device), ":", array.device_index,
                     ", expected a NumPy array or other host memory"));
    }
    if (array.dtype != ai::DType::F32) {
      const std::string dtype =
          array.dtype.has_value() ? ai::to_string(*array.dtype) : array.dtype_name;
      raise(ai::StatusCode::DtypeMismatch,
            ai::text(name, " is ", dtype, ", expected float32: give ", name,
                     ".astype(numpy.float32)"));
    }
    if (!fits(array, may_transpose)) {
      // As a Tensor: NumPy knows no other way into all that array_of does.
      object =
          nb::module_::import_("numpy").attr("array")(as_tensor(argument, name), "order"_a = "C");
    }
  }

  /// 0 where it is no matrix.
  [[nodiscard]] std::int64_t extent(std::size_t axis) const {
    return array.rank == 2 ? std::max<std::int64_t>(array.shape[axis], 0) : 0;
  }
};

ai::Status run(const ai::GemmForward& call, [[maybe_unused]] ai::Device device,
               [[maybe_unused]] int device_index) {
  if (device == ai::Device::CPU) return ai::gemm::forward(call, nullptr);
  const ai::Result<ai::GemmPlan> plan = ai::plan_forward(call);
  AI_RETURN_IF_ERROR(plan.status());
#if GE_PYTHON_WITH_CUDA
  return forward_on_gpu(*plan, device_index);
#else
  return ai::target_available(ai::Target::CUDA);
#endif
}

nb::object forward_numpy(nb::handle A, nb::handle B, nb::handle bias, nb::handle act, bool trans_a,
                         bool trans_b, float leaky_slope, nb::handle C, float alpha, float beta,
                         ai::Device device, int device_index, bool return_z) {
  const ai::GemmAttrs attrs = {.trans_a = trans_a,
                               .trans_b = trans_b,
                               .act = activation_of(act),
                               .leaky_slope = leaky_slope,
                               .alpha = alpha,
                               .beta = beta};
  if (device_index < 0) {
    raise(ai::StatusCode::Invalid,
          ai::text("device_index is ", device_index, ", expected 0 or more"));
  }
  const Input a(A, "A", true);
  const Input b(B, "B", true);
  const Input c(C, "C", false);
  const Input with(bias, "bias", false);
  const std::int64_t rows = a.extent(trans_a ? 1 : 0);
  const std::int64_t cols = b.extent(trans_b ? 0 : 1);
  constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max() / sizeof(float);
  if (rows > 0 && cols > kMostElements / rows) {
    raise(ai::StatusCode::OutOfMemory,
          ai::text("Y is [", rows, ",", cols, "], expected its bytes to fit 64 bits"));
  }
  const nb::tuple shape = nb::make_tuple(rows, cols);
  const nb::object empty = nb::module_::import_("numpy").attr("empty");
  nb::object y = empty(shape, "float32");
  nb::object z = return_z ? empty(shape, "float32") : nb::none();
  const BoundCall<ai::GemmForward> bound = forward_call(
      {.A = a.object, .B = b.object, .C = c.object, .bias = with.object, .Y = y, .Z = z}, attrs,
      Hold::Call);
  ai::Status status;
  {
    const WithoutGil release;
    status = run(bound.call, device, device_index);
  }
  check(status);
  if (!return_z) return y;
  return nb::make_tuple(std::move(y), std::move(z));
}

}  // namespace

void bind_numpy(nb::module_& module) {
  module.def(
      "forward_numpy", &forward_numpy, "A"_a.none(), "B"_a.none(), "bias"_a.none() = nb::none(),
      "act"_a.none() = "none", nb::kw_only(), "trans_a"_a = false, "trans_b"_a = false,
      "leaky_slope"_a = 0.01F, "C"_a.none() = nb::none(), "alpha"_a = 1.0F, "beta"_a = 0.0F,
      "device"_a.noconvert() = ai::Device::CUDA, "device_index"_a = 0, "return_z"_a = false,
      nb::sig("def forward_numpy(A: object, B: object, bias: object | None = None, "
              "act: ActKind | str | None = \"none\", *, trans_a: bool = False, "
              "trans_b: bool = False, leaky_slope: float = 0.01, C: object | None = None, "
              "alpha: float = 1.0, beta: float = 0.0, device: Device = CUDA, "
              "device_index: int = 0, return_z: bool = False) -> typing.Any"),
      "Y = act(Z), Z = alpha * op(A) op(B) + beta * C + bias over NumPy arrays: the convenient, "
      "slow\n"
      "way, which copies to the GPU, runs, copies back and waits. Returns a new Y [M,N], or (Y, "
      "Z)\n"
      "with `return_z`.\n\n"
      "op(A) [M,K], op(B) [K,N], C [M,N], bias [1], [1,1], [N], [1,N] or [M,1]: float32 with any\n"
      "strides, never changed. device=Device.CPU computes on the host, in double precision. "
      "Nothing\n"
      "on the device outlives the call, but the direct path's plans and scratch.\n\n"
      "Raises DtypeMismatch for other dtypes, DeviceMismatch for arrays that are not in host "
      "memory,\n"
      "Unsupported with the reason where there is no GPU, ImportError without NumPy.");
}

}  // namespace ge_python
