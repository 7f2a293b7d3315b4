#include "check.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>

#include "data.hpp"
#include "expectation.hpp"
#include "parallel.hpp"

namespace bench {
namespace {

using oracle::Expected;

constexpr std::int64_t kWhole = std::int64_t{1} << 16;
constexpr std::int64_t kSamples = 4096;

class Checker {
 public:
  Checker(const HostNetwork& after, bool needs_z, double activation_error)
      : after_(after),
        before_(after.row),
        expectation_(before_, after, activation_error),
        needs_z_(needs_z) {}

  Checked run() {
    check_inputs();
    for (int l = 0; l < after_.row.depth(); ++l) check_forward(l);
    if (after_.row.has_backward()) {
      for (int l = after_.row.depth() - 1; l >= 0; --l) check_backward(l);
    }
    if (after_.row.mode == Mode::TrainStep) {
      for (int l = 0; l < after_.row.depth(); ++l) check_update(l);
    }
    return result_;
  }

 private:
  static std::size_t index(int l) { return static_cast<std::size_t>(l); }

  void check_inputs() {
    unchanged("x", before_.x, after_.x);
    unchanged("the target", before_.target, after_.target);
    const std::size_t last = after_.layers.size() - 1;
    if (after_.row.mode == Mode::ForwardBackward) {
      unchanged("the given gy", before_.layers[last].gy, after_.layers[last].gy);
    }
    for (std::size_t l = 0; after_.row.mode != Mode::TrainStep && l <= last; ++l) {
      const std::string of = " of layer " + std::to_string(l);
      unchanged("w" + of, before_.layers[l].w, after_.layers[l].w);
      unchanged("b" + of, before_.layers[l].b, after_.layers[l].b);
    }
  }
  void unchanged(const std::string& name, const HostMatrix& was, const HostMatrix& is) {
    if (std::memcmp(was.values.data(), is.values.data(), was.count() * sizeof(float)) != 0) {
      fail(name + " was changed");
    }
  }

  void check_forward(int l) {
    const HostNetwork::Layer& layer = after_.layers[index(l)];
    const ai::ActKind act = after_.row.activation_of(l);
    compare("y", l, layer.y,
            [&](std::int64_t m, std::int64_t n) { return expectation_.y(l, m, n); });
    if (!after_.row.has_backward() || act == ai::ActKind::None) return;
    if (needs_z_ || expectation_.has_z(l)) {
      compare("z", l, layer.z,
              [&](std::int64_t m, std::int64_t n) { return expectation_.z(l, m, n); });
    }
  }

  void check_backward(int l) {
    const HostNetwork::Layer& layer = after_.layers[index(l)];
    const bool has_gy = layer.gy.is_written();
    const bool has_gz = layer.gz.is_written();
    if (!has_gy && !has_gz) {
      fail("neither gy nor gz of layer " + std::to_string(l) + " was written");
    }
    const bool is_given = after_.row.mode == Mode::ForwardBackward && l + 1 == after_.row.depth();
    if (has_gy && !is_given) {
      compare("gy", l, layer.gy,
              [&](std::int64_t m, std::int64_t n) { return expectation_.gy(l, m, n); });
    }
    if (has_gz) {
      compare("gz", l, layer.gz,
              [&](std::int64_t m, std::int64_t n) { return expectation_.gz(l, m, n, has_gy); });
    }
    expectation_.take_gz(l, has_gz);
    compare("gw", l, layer.gw,
            [&](std::int64_t k, std::int64_t n) { return expectation_.gw(l, k, n); });
    compare("gb", l, layer.gb, [&](std::int64_t, std::int64_t n) { return expectation_.gb(n); });
  }

  void check_update(int l) {
    const HostNetwork::Layer& now = after_.layers[index(l)];
    const HostNetwork::Layer& was = before_.layers[index(l)];
    const auto updated = [](const HostMatrix& old, const HostMatrix& gradient) {
      return [&](std::int64_t row, std::int64_t col) {
        return Expectation::updated(old.at(row, col), gradient.at(row, col));
      };
    };
    compare("w", l, now.w, updated(was.w, now.gw));
    compare("b", l, now.b, updated(was.b, now.gb));
  }

  /// `expected(row, col)` gives what an element should be.
  template <typename Of>
  void compare(const char* name, int l, const HostMatrix& got, const Of& expected) {
    const auto count = static_cast<std::int64_t>(got.count());
    const std::int64_t places = count <= kWhole ? count : kSamples;
    const auto place = [&](std::int64_t i) {
      return count <= kWhole
                 ? i
                 : hash(static_cast<std::uint32_t>(l), static_cast<std::uint32_t>(i)) % count;
    };
    const auto ratio_at = [&](std::int64_t at) {
      const Expected e = expected(at / got.cols, at % got.cols);
      const double error = std::abs(got.at(at / got.cols, at % got.cols) - e.value);
      if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
      return error == 0 ? 0 : error / e.tolerance();
    };
    in_parallel(places, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t worst = place(begin);
      double ratio = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        if (const double here = ratio_at(place(i)); here > ratio) {
          ratio = here;
          worst = place(i);
        }
      }
      const Expected e = expected(worst / got.cols, worst % got.cols);
      char text[160];
      std::snprintf(
          text, sizeof text, "%s of layer %d at [%lld,%lld] is %.9g, expected %.9g +- %.2g", name,
          l, static_cast<long long>(worst / got.cols), static_cast<long long>(worst % got.cols),
          got.at(worst / got.cols, worst % got.cols), e.value, e.tolerance());
      note(ratio, text);
    });
    result_.count += places;
  }

  void note(double ratio, const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (!result_.worst.empty() && ratio <= result_.error_ratio) return;
    result_.error_ratio = ratio;
    result_.worst = what;
  }
  void fail(const std::string& what) { note(std::numeric_limits<double>::infinity(), what); }

  const HostNetwork& after_;
  const HostNetwork before_;
  Expectation expectation_;
  const bool needs_z_;
  std::mutex mutex_;
  Checked result_;
};

}  // namespace

Checked check_network(const HostNetwork& after, bool needs_z, double activation_error) {
  return Checker(after, needs_z, activation_error).run();
}

}  // namespace bench
