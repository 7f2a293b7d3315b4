#include "capture/enqueue.hpp"

#include <exception>
#include <new>

namespace ai::detail {

Status in_step(const Step& step, const Status& status) {
  return {status.code(), "step '" + step.name() + "': " + status.message()};
}

namespace {

/// `call` with whatever it throws turned into a Status.
template <typename Call>
Status guarded(const Step& step, const Call& call) {
  try {
    Status status = call();
    return status.ok() ? status : in_step(step, status);
  } catch (const std::bad_alloc&) {
    return {StatusCode::OutOfMemory, "step '" + step.name() + "': host memory ran out"};
  } catch (const std::exception& e) {
    return {StatusCode::Invalid, "step '" + step.name() + "' threw an exception: " + e.what()};
  } catch (...) {
    return {StatusCode::Invalid,
            "step '" + step.name() + "' threw something that is not a std::exception"};
  }
}

}  // namespace

Status prepare(Step& step) {
  return guarded(step, [&] { return step.prepare(); });
}

Status enqueue(Step& step, const AddressMap& addresses, Stream stream) {
  return guarded(step, [&] { return step.enqueue(addresses, stream); });
}

}  // namespace ai::detail
