#include "ai/memory.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace ai {
namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

/// The same bytes, written with rows > 1 only where there are gaps between the runs.
MemoryRange without_joined_rows(const MemoryRange& range) noexcept {
  if (range.rows > 1 && range.pitch > range.width) return range;
  const auto width = static_cast<std::int64_t>(range.end() - range.begin);
  return {range.begin, 1, width, width};
}

/// Sum of floor((a * x + b) / m) over 0 <= x < n, modulo 2^128, in Euclid's number of rounds: what
/// is left after the integer parts are taken out is counted along the other axis.
UInt128 floor_sum(UInt128 n, UInt128 m, UInt128 a, UInt128 b) noexcept {
  UInt128 sum = 0;
  while (n > 0) {
    sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
    a %= m;
    const UInt128 top = a * n + b % m;
    n = top / m;
    b = top % m;
    std::swap(a, m);
  }
  return sum;
}

/// How many (x, y) with 0 <= x < columns, 0 <= y < rows have a * x + b * y <= limit; a, b > 0.
UInt128 lattice_points(UInt128 columns, UInt128 rows, UInt128 a, UInt128 b, Int128 limit) noexcept {
  if (limit < 0) return 0;
  const auto s = static_cast<UInt128>(limit);
  const UInt128 used = std::min(columns, s / a + 1);  // columns that have a point at all
  const UInt128 top = (rows - 1) * b;
  const UInt128 full = s < top ? 0 : std::min(used, (s - top) / a + 1);
  const UInt128 partial = used - full;
  return full * rows + partial + floor_sum(partial, b, a, s - a * (used - 1));
}

constexpr std::uintptr_t kSymbolicBase = std::uintptr_t{1} << 60;
constexpr std::uintptr_t kSymbolicEnd = std::uintptr_t{1} << 63;
constexpr std::uintptr_t kSymbolicAlignment = 256;
std::atomic<std::uintptr_t> next_symbolic{kSymbolicBase};

}  // namespace

MemoryRange range_of(const Tensor& tensor) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
  const auto size = static_cast<std::int64_t>(size_of(tensor.desc.dtype));
  const Extents& shape = tensor.desc.shape;
  const std::int64_t cols = shape.rank() == 1 ? 1 : shape[1];
  if (shape[0] <= 0 || cols <= 0) return {begin, 0, 0, 0};  // its strides may be of any size
  // The stride of a single row has no meaning and may be of any size too.
  const std::int64_t pitch = shape[0] == 1 ? cols : tensor.desc.stride[0];
  return {begin, shape[0], cols * size, pitch * size};
}

std::vector<MemoryRange> ranges_of(const std::vector<Tensor>& tensors) {
  std::vector<MemoryRange> ranges;
  ranges.reserve(tensors.size());
  for (const Tensor& tensor : tensors) ranges.push_back(range_of(tensor));
  return ranges;
}

MemoryRange range_of(const void* data, std::size_t bytes) noexcept {
  const auto width = static_cast<std::int64_t>(bytes);
  return {reinterpret_cast<std::uintptr_t>(data), 1, width, width};
}

bool overlaps(const MemoryRange& a, const MemoryRange& b) noexcept {
  if (a.empty() || b.empty() || a.end() <= b.begin || b.end() <= a.begin) return false;
  const MemoryRange p = without_joined_rows(a);
  const MemoryRange q = without_joined_rows(b);
  if (p.rows == 1 && q.rows == 1) return true;

  // Run i of p and run j of q share a byte iff -p.width < distance + i * p.pitch - j * q.pitch <
  // q.width. With j counted from the last row both coefficients are positive, and the points of
  // that strip are those below its upper edge without those below its lower one.
  const Int128 distance = static_cast<Int128>(p.begin) - static_cast<Int128>(q.begin);
  const Int128 origin = static_cast<Int128>(q.rows - 1) * q.pitch - distance;
  const auto below = [&](Int128 edge) {
    return lattice_points(static_cast<UInt128>(p.rows), static_cast<UInt128>(q.rows),
                          static_cast<UInt128>(p.pitch), static_cast<UInt128>(q.pitch),
                          origin + edge);
  };
  return below(q.width - 1) != below(-p.width);
}

namespace symbolic {

void* allocate(std::size_t bytes) noexcept {
  const std::uintptr_t blocks = bytes / kSymbolicAlignment + (bytes % kSymbolicAlignment != 0);
  const std::uintptr_t step = std::max<std::uintptr_t>(blocks, 1) * kSymbolicAlignment;
  return reinterpret_cast<void*>(next_symbolic.fetch_add(step, std::memory_order_relaxed));
}

bool is_symbolic(const void* address) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return value >= kSymbolicBase && value < kSymbolicEnd;
}

}  // namespace symbolic

void AddressMap::add(std::uintptr_t from, std::size_t bytes, void* to) {
  const auto place =
      std::upper_bound(entries_.begin(), entries_.end(), from,
                       [](std::uintptr_t value, const Entry& entry) { return value < entry.from; });
  entries_.insert(place, {from, bytes, reinterpret_cast<std::uintptr_t>(to)});
}

void* AddressMap::operator()(const void* address) const noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  const auto after =
      std::upper_bound(entries_.begin(), entries_.end(), value,
                       [](std::uintptr_t v, const Entry& entry) { return v < entry.from; });
  if (after != entries_.begin()) {
    const Entry& entry = *(after - 1);
    const std::uintptr_t offset = value - entry.from;
    // The first address of an entry maps even where the entry holds no bytes (empty operands).
    if (offset == 0 || offset < entry.bytes) return reinterpret_cast<void*>(entry.to + offset);
  }
  return const_cast<void*>(address);
}

Tensor AddressMap::operator()(const Tensor& tensor) const noexcept {
  Tensor mapped = tensor;
  mapped.data = (*this)(static_cast<const void*>(tensor.data));
  return mapped;
}

}  // namespace ai
