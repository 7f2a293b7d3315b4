// Cases C13, C14 and C16 on every road: alignments, leading dimensions, padding.
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "operand.hpp"
#include "roads.hpp"

namespace {

using ai::ActKind;
using ai::BiasKind;
using gpu::Road;
using gpu::unlike;
using support::BackwardData;
using support::Buffer;
using support::Case;
using support::ForwardData;

/// 127x129x65: every width is odd.
Case odd_case(BiasKind bias, ActKind act, bool full) {
  Case c{127, 129, 65, bias, act};
  c.with_z = c.with_c = full;
  c.beta = 0.5F;
  return c;
}

/// Terms of one sign: sums without cancellation, for which a relative bound means something.
template <typename Data>
Data positive(const Case& c) {
  Data data(c);
  data.for_each([](const char* name, Buffer& buffer, bool is_output) {
    if (is_output || std::string(name) == "Z") return;
    buffer.for_each([](float& element) { element = 0.75F + 0.25F * element; });
  });
  return data;
}

template <typename Data>
void check_alignments(std::span<const Road> roads, const Case& c) {
  CAPTURE(support::to_string(c));
  const Data fresh = positive<Data>(c);
  for (const Road road : roads) {
    CAPTURE(gpu::to_string(road));
    Data aligned = fresh;
    const ai::Status status = gpu::run(road, aligned);
    REQUIRE_MESSAGE(status.ok(), status.to_string());
    std::vector<std::string> names;
    aligned.for_each([&](const char* name, Buffer&, bool) { names.emplace_back(name); });
    for (const std::string& shifted : names) {
      for (const std::int64_t offset : {1, 2, 3}) {
        INFO(shifted, " is ", 4 * offset, " bytes past an aligned address");
        Data data = fresh;
        data.for_each([&](const char* name, Buffer& buffer, bool) {
          if (name == shifted) buffer = gpu::relaid(buffer, 0, offset);
        });
        Data before = data;
        const ai::Status moved = gpu::run(road, data);
        CHECK_MESSAGE(moved.ok(), moved.to_string());
        if (!moved.ok()) continue;
        CHECK(support::damage(before, data) == "");
        std::vector<Buffer*> expected;
        aligned.for_each([&](const char*, Buffer& buffer, bool) { expected.push_back(&buffer); });
        std::size_t i = 0;
        data.for_each([&](const char* name, Buffer& buffer, bool is_output) {
          const Buffer& wanted = *expected[i++];
          if (!is_output) return;
          CHECK(unlike(name, buffer, gpu::as_in(wanted), {.relative = 1e-5}) == "");
        });
      }
    }
  }
}

TEST_CASE("C13: any operand may be 4, 8 or 12 bytes past an aligned address, with odd widths") {
  // ReLU without Z is what library epilogues do, whose bias has rules of its own.
  check_alignments<ForwardData>(gpu::kRoads, odd_case(BiasKind::PerN, ActKind::ReLU, false));
  check_alignments<ForwardData>(gpu::kRoads, odd_case(BiasKind::PerN, ActKind::None, false));
  check_alignments<ForwardData>(gpu::kRoads, odd_case(BiasKind::PerM, ActKind::ReLU, true));
  check_alignments<BackwardData>(gpu::kRoads, odd_case(BiasKind::PerN, ActKind::ReLU, true));
  check_alignments<BackwardData>(gpu::kRoads, odd_case(BiasKind::PerM, ActKind::None, true));
  const Road tuned[] = {Road::Tuned};
  check_alignments<ForwardData>(tuned, odd_case(BiasKind::PerN, ActKind::ReLU, false));
}

TEST_CASE("C13: the aligned run is right") {
  for (const BiasKind kind : {BiasKind::PerN, BiasKind::PerM}) {
    gpu::check_on_roads(gpu::kRoadsAndTuned, odd_case(kind, ActKind::ReLU, true));
  }
}

/// Bends each operand with bend(tensor) and expects every road to refuse it with `code` and by
/// name, and to write nothing.
template <typename Data, typename Bend>
void check_refused(const Case& c, ai::StatusCode code, const std::string& what, Bend&& bend) {
  const Data fresh(c);
  std::vector<std::string> names;
  Data(c).for_each([&](const char* name, Buffer&, bool) { names.emplace_back(name); });
  for (const std::string& bent : names) {
    if (bent == "C" && std::is_same_v<Data, BackwardData>) continue;  // only described
    for (const Road road : gpu::kRoads) {
      CAPTURE(gpu::to_string(road));
      CAPTURE(bent);
      Data before = fresh;
      Data data = fresh;
      bool was_bent = false;
      const ai::Status status =
          gpu::run(road, data, [&](auto& call) { was_bent = bend(*gpu::operand(call, bent)); });
      if (!was_bent) continue;
      CHECK_MESSAGE(status.code() == code, status.to_string());
      CHECK_MESSAGE(status.message().find(bent + what) == 0, status.to_string());
      std::vector<Buffer*> old;
      before.for_each([&](const char*, Buffer& buffer, bool) { old.push_back(&buffer); });
      std::size_t i = 0;
      data.for_each([&](const char* name, Buffer& buffer, bool) {
        CHECK_MESSAGE(buffer.has_same_bits(*old[i++]), std::string(name), " was written");
      });
    }
  }
}

TEST_CASE("C13: an operand 2 bytes past an aligned address is Invalid on every road") {
  const auto bend = [](ai::Tensor& tensor) {
    tensor.data = static_cast<char*>(tensor.data) + 2;
    return true;
  };
  const Case c = odd_case(BiasKind::PerN, ActKind::ReLU, true);
  check_refused<ForwardData>(c, ai::StatusCode::Invalid, " is at ", bend);
  check_refused<BackwardData>(c, ai::StatusCode::Invalid, " is at ", bend);
}

TEST_CASE("C14: Z is plain A B + bias + C with any leading dimension, for any width") {
  for (const std::int64_t n : {1, 7, 127, 128, 129}) {
    for (const std::int64_t pad : {0, 3}) {
      for (const ActKind act : {ActKind::None, ActKind::ReLU, ActKind::GELU}) {
        Case c{33, n, 64, n == 7 ? BiasKind::PerM : BiasKind::PerN, act};
        c.with_z = c.with_c = true;
        c.values = support::Values::ExactLeft;
        ForwardData data(c);
        data.z = gpu::relaid(*data.z, pad, 0);
        const oracle::Forward expected = oracle::forward(data.call());
        CAPTURE(pad);
        const auto check = [&](const ForwardData& done, Road) {
          CHECK(support::exact_difference("Z", expected.z, *done.z) == "");
          CHECK(support::difference("Y", expected.y, done.y) == "");
        };
        if (n >= 127 && act == ActKind::ReLU) {
          gpu::on_roads(gpu::kRoadsAndTuned, data, check);
        } else {
          gpu::on_roads(gpu::kRoads, data, check);
        }
      }
    }
  }
}

TEST_CASE("C16: a leading dimension below the width is refused on every road") {
  const auto bend = [](ai::Tensor& tensor) {
    const bool is_matrix = tensor.desc.shape[0] > 1 && tensor.desc.shape[1] > 1;
    if (is_matrix) tensor.desc.stride[0] = tensor.desc.shape[1] - 1;
    return is_matrix;
  };
  const Case c = odd_case(BiasKind::PerN, ActKind::ReLU, true);
  check_refused<ForwardData>(c, ai::StatusCode::StrideMismatch, " has leading dimension ", bend);
  check_refused<BackwardData>(c, ai::StatusCode::StrideMismatch, " has leading dimension ", bend);
}

TEST_CASE("C16: with one row any leading dimension will do") {
  for (const std::int64_t ld : {0, 1, 1000}) {
    CAPTURE(ld);
    const auto degenerate = [ld](auto& call) {
      for (const char* name : {"A", "B", "C", "Y", "Z", "gY", "gA", "gB", "gC"}) {
        constexpr bool kIsForward = std::is_same_v<std::decay_t<decltype(call)>, ai::GemmForward>;
        if (name[0] == (kIsForward ? 'g' : 'Y')) continue;
        ai::Tensor* const tensor = gpu::operand(call, name);
        if (tensor != nullptr && tensor->desc.shape[0] == 1) tensor->desc.stride[0] = ld;
      }
    };
    for (const auto& [n, k] : {std::pair<int, int>{129, 65}, {1, 1}, {5, 1}, {1, 7}}) {
      Case c{1, n, k, BiasKind::PerN, ActKind::ReLU};
      c.with_z = c.with_c = true;
      const ForwardData forward(c);
      const oracle::Forward expected = oracle::forward(forward.call());
      gpu::on_roads(
          gpu::kRoadsAndHost, forward,
          [&](const ForwardData& done, Road) {
            CHECK(support::difference("Y", expected.y, done.y) == "");
            CHECK(support::difference("Z", expected.z, *done.z) == "");
          },
          degenerate);
      const BackwardData backward(c);
      const oracle::Backward gradients = oracle::backward(backward.call());
      gpu::on_roads(
          gpu::kRoadsAndHost, backward,
          [&](const BackwardData& done, Road) {
            CHECK(support::difference("gA", gradients.ga, *done.ga) == "");
            CHECK(support::difference("gB", gradients.gb, *done.gb) == "");
            CHECK(support::difference("gC", gradients.gc, *done.gc) == "");
            CHECK(support::difference("gBias", gradients.gbias, *done.gbias) == "");
          },
          degenerate);
    }
  }
}

// Padding holds NaN: read, it would spread; written, it is found.
TEST_CASE("C16: padding is neither read nor written, for every pair of transposes") {
  for (unsigned bits = 0; bits < 4; ++bits) {
    for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
      Case c{37, 29, 41, BiasKind::PerN, act};
      c.trans_a = (bits & 1U) != 0;
      c.trans_b = (bits & 2U) != 0;
      c.pad = 5;
      gpu::check_on_roads(gpu::kAllRoads, c);
      c.with_z = c.with_c = true;
      gpu::check_on_roads(gpu::kRoadsAndHost, c);
    }
  }
}

}  // namespace
