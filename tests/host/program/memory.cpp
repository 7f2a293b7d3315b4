#include "ai/memory.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace {

using ai::MemoryRange;

std::set<std::uintptr_t> bytes_of(const MemoryRange& range) {
  std::set<std::uintptr_t> bytes;
  for (std::int64_t row = 0; row < range.rows; ++row) {
    for (std::int64_t i = 0; i < range.width; ++i) {
      bytes.insert(range.begin + static_cast<std::uintptr_t>(row * range.pitch + i));
    }
  }
  return bytes;
}

bool share_a_byte(const MemoryRange& a, const MemoryRange& b) {
  const std::set<std::uintptr_t> bytes = bytes_of(a);
  for (const std::uintptr_t byte : bytes_of(b)) {
    if (bytes.count(byte) != 0) return true;
  }
  return false;
}

class Views {
 public:
  explicit Views(std::uint32_t seed) : engine_(seed) {}

  MemoryRange next(int extent) {
    MemoryRange range;
    range.begin = 1000 + static_cast<std::uintptr_t>(pick(0, 4 * extent));
    range.rows = pick(0, extent);
    range.width = pick(0, extent);
    // Rows that touch, overlap or all start at one place are legal ranges too.
    range.pitch = pick(0, 2 * extent);
    return range;
  }

 private:
  std::int64_t pick(int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  std::mt19937 engine_;
};

TEST_CASE("the stride of a single row may be of any size") {
  ai::Tensor tensor = ai::make_tensor_2d(reinterpret_cast<const void*>(4096), {1, 5});
  tensor.desc.stride = {std::int64_t{1} << 62, 1};
  const ai::MemoryRange range = ai::range_of(tensor);
  CHECK(range.begin == 4096);
  CHECK(range.end() == 4096 + 20);
}

TEST_CASE("overlaps agrees with byte-by-byte comparison on random small views") {
  Views views(20240607);
  int overlapping = 0;
  int bounded_but_apart = 0;
  for (int round = 0; round < 40000; ++round) {
    const int extent = 1 + round % 12;
    const MemoryRange a = views.next(extent);
    const MemoryRange b = views.next(extent);
    const bool expected = share_a_byte(a, b);
    overlapping += expected ? 1 : 0;
    bounded_but_apart +=
        !expected && !a.empty() && !b.empty() && a.begin < b.end() && b.begin < a.end();
    CAPTURE(a.begin);
    CAPTURE(a.rows);
    CAPTURE(a.width);
    CAPTURE(a.pitch);
    CAPTURE(b.begin);
    CAPTURE(b.rows);
    CAPTURE(b.width);
    CAPTURE(b.pitch);
    REQUIRE(ai::overlaps(a, b) == expected);
    REQUIRE(ai::overlaps(b, a) == expected);
  }
  // The interesting cases were there: meshed combs that miss each other, and ones that hit.
  CHECK(overlapping > 4000);
  CHECK(bounded_but_apart > 500);
}

TEST_CASE("column halves of one buffer do not overlap, one shared column does") {
  const std::uintptr_t base = 4096;
  const MemoryRange left{base, 100, 64 * 4, 128 * 4};
  const MemoryRange right{base + 64 * 4, 100, 64 * 4, 128 * 4};
  const MemoryRange wider{base + 63 * 4, 100, 64 * 4, 128 * 4};
  CHECK_FALSE(ai::overlaps(left, right));
  CHECK_FALSE(ai::overlaps(right, left));
  CHECK(ai::overlaps(left, wider));
}

TEST_CASE("overlaps is exact for extents that no loop could visit") {
  const std::int64_t many = std::int64_t{1} << 40;
  // Coprime pitches 6 and 10 leave residue 1 mod 2 apart from residue 0, whatever the extents.
  const MemoryRange even{0, many, 1, 6};
  const MemoryRange even_too{1 << 20, many, 1, 10};
  const MemoryRange odd{(1 << 20) + 1, many, 1, 10};
  CHECK(ai::overlaps(even, even_too));
  CHECK_FALSE(ai::overlaps(even, odd));
  // The only common byte of these two combs is the last byte of the one and the first of the other.
  const MemoryRange first{0, many, 1, 16};
  const MemoryRange second{static_cast<std::uintptr_t>((many - 1) * 16), many, 1, 16};
  CHECK(ai::overlaps(first, second));
}

TEST_CASE("nothing overlaps an empty range, not even itself") {
  const MemoryRange whole{100, 1, 100, 100};
  for (const MemoryRange empty : {MemoryRange{110, 0, 4, 4}, MemoryRange{110, 4, 0, 4}}) {
    CHECK(empty.empty());
    CHECK(empty.end() == 110);
    CHECK_FALSE(ai::overlaps(whole, empty));
    CHECK_FALSE(ai::overlaps(empty, whole));
    CHECK_FALSE(ai::overlaps(empty, empty));
  }
}

TEST_CASE("range_of covers the rows of a tensor without its padding") {
  float data[64] = {};
  const auto base = reinterpret_cast<std::uintptr_t>(data);
  const MemoryRange matrix =
      ai::range_of(ai::make_tensor_2d(data + 1, {3, 5}, ai::DType::F32, ai::Device::CPU, 0, 8));
  CHECK(matrix.begin == base + 4);
  CHECK(matrix.end() == base + 4 * (1 + 2 * 8 + 5));
  const MemoryRange column =
      ai::range_of(ai::make_tensor_1d(data, 4, ai::DType::F32, ai::Device::CPU, 0, 8));
  CHECK(column.end() == base + 4 * (3 * 8 + 1));
  CHECK_FALSE(ai::overlaps(column, matrix));
  const MemoryRange halves =
      ai::range_of(ai::make_tensor_2d(data, {2, 4}, ai::DType::F16, ai::Device::CPU));
  CHECK(halves.end() == base + 16);
  CHECK(ai::range_of(data, 12).end() == base + 12);
}

TEST_CASE("symbolic addresses are aligned, unique and never shared, for empty storage too") {
  std::set<std::uintptr_t> seen;
  std::uintptr_t end_of_previous = 0;
  for (const std::size_t bytes : {0UL, 0UL, 1UL, 256UL, 257UL, 0UL, 1UL << 40}) {
    const void* address = ai::symbolic::allocate(bytes);
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    CHECK(ai::symbolic::is_symbolic(address));
    CHECK(value % 256 == 0);
    CHECK(value >= end_of_previous);
    CHECK(seen.insert(value).second);
    end_of_previous = value + bytes;
  }
  int on_the_stack = 0;
  CHECK_FALSE(ai::symbolic::is_symbolic(&on_the_stack));
  CHECK_FALSE(ai::symbolic::is_symbolic(nullptr));
}

TEST_CASE("symbolic addresses of several threads do not meet") {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::vector<std::vector<std::uintptr_t>> found(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : found) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < kEach; ++i) {
        mine.push_back(reinterpret_cast<std::uintptr_t>(ai::symbolic::allocate(100)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uintptr_t> all;
  for (const auto& mine : found) all.insert(mine.begin(), mine.end());
  CHECK(all.size() == kThreads * kEach);
}

TEST_CASE("an AddressMap maps whole entries, keeps offsets and leaves other addresses alone") {
  char storage[1024];
  char* first = static_cast<char*>(ai::symbolic::allocate(300));
  char* empty = static_cast<char*>(ai::symbolic::allocate(0));
  char* second = static_cast<char*>(ai::symbolic::allocate(100));
  ai::AddressMap map;
  CHECK(map(first) == first);
  map.add(reinterpret_cast<std::uintptr_t>(second), 100, storage + 512);
  map.add(reinterpret_cast<std::uintptr_t>(first), 300, storage);
  map.add(reinterpret_cast<std::uintptr_t>(empty), 0, storage + 1);
  CHECK(map(first) == storage);
  CHECK(map(first + 299) == storage + 299);
  CHECK(map(first + 300) == first + 300);
  CHECK(map(empty) == storage + 1);
  CHECK(map(second + 99) == storage + 512 + 99);
  CHECK(map(second + 100) == second + 100);
  CHECK(map(first - 1) == first - 1);
  CHECK(map(nullptr) == nullptr);

  const ai::Tensor tensor =
      ai::make_tensor_2d(second + 4, {2, 3}, ai::DType::F32, ai::Device::CPU, 0, 5);
  const ai::Tensor mapped = map(tensor);
  CHECK(mapped.data == storage + 516);
  CHECK(mapped.desc.shape == tensor.desc.shape);
  CHECK(mapped.desc.stride == tensor.desc.stride);
}

}  // namespace
