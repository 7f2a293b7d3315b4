#include "held.hpp"

#include <utility>

#include "gc.hpp"

namespace ge_python {

void Held::reserve_more(std::size_t count) {
  const auto grow = [](auto& values, std::size_t more) {
    if (values.capacity() - values.size() < more) values.reserve(2 * values.size() + more);
  };
  grow(owners, count);
  grow(functions, 1);
}

void Held::add(const void* data, nb::object owner) noexcept {
  if (owner.is_valid() && !owner.is_none()) owners.push_back({data, std::move(owner)});
}

nb::object Held::owner_of(const void* data) const {
  for (const HeldOwner& owner : owners) {
    if (owner.data == data) return owner.object;
  }
  return {};
}

int Held::traverse(visitproc visit, void* arg) const {
  for (const HeldOwner& owner : owners) Py_VISIT(owner.object.ptr());
  return visit_all(functions, visit, arg);
}

}  // namespace ge_python
