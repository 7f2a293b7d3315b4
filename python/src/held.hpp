#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <vector>

namespace ge_python {

namespace nb = nanobind;

/// What keeps the memory at `data` alive.
struct HeldOwner {
  const void* data = nullptr;
  nb::object object;
};

/// References that a Program or an Executable owns: owners of operands, and step functions, which
/// the library's functions only borrow. Copied, changed and destroyed with the GIL.
struct Held {
  std::vector<HeldOwner> owners;
  std::vector<nb::object> functions;

  /// Room for `count` more owners and a function: adding them cannot fail then.
  void reserve_more(std::size_t count);
  /// Nothing where there is no owner (a raw pointer).
  void add(const void* data, nb::object owner) noexcept;
  /// The first owner for `data`, or none.
  [[nodiscard]] nb::object owner_of(const void* data) const;
  [[nodiscard]] bool empty() const noexcept { return owners.empty() && functions.empty(); }
  int traverse(visitproc visit, void* arg) const;
};

}  // namespace ge_python
