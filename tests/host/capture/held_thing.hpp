#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <utility>

#include "one_layer.hpp"

namespace ai::test {

/// Something to hold. `gone` once nothing holds it.
struct Thing {
  explicit Thing(std::function<void()> also = {}) {
    held.reset(static_cast<const char*>("thing"), [this, also = std::move(also)](const void*) {
      gone = true;
      if (also) also();
    });
  }
  [[nodiscard]] std::shared_ptr<const void> give() { return std::exchange(held, nullptr); }

  std::shared_ptr<const void> held;
  bool gone = false;
};

/// A thing that an executable has held which was destroyed in flight.
inline void leave_in_flight(FakeCuda& fake, OneLayer& one, Thing& thing) {
  fake.hold();
  {
    Executable executable = one.capture();
    executable.hold(thing.give());
    const Stream stream = fake.make_stream();
    REQUIRE(executable.launch(stream).ok());
    fake.destroy_stream(stream);
  }
  CHECK(!thing.gone);
  detail::reclaim(FakeCuda::api());
  CHECK(!thing.gone);
  fake.complete();
  CHECK(!thing.gone);  // a callback of CUDA's is no place to run it
}

}  // namespace ai::test
