#include "capture/hazards.hpp"

#include <utility>

#include "ai/step.hpp"

namespace ai::detail {
namespace {

bool conflict(const Footprint& a, const Footprint& b) noexcept {
  return in_conflict({a.reads, a.writes}, {b.reads, b.writes});
}

}  // namespace

Hazards::Hazards(std::vector<Footprint> footprints) : footprints_(std::move(footprints)) {
  for (std::size_t later = 0; later < footprints_.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      waits_.push_back(conflict(footprints_[later], footprints_[earlier]));
    }
  }
}

std::vector<std::vector<int>> Hazards::dependencies() const {
  return ai::dependencies(footprints_.size(), [this](std::size_t later, std::size_t earlier) {
    return waits_[pair(later, earlier)];
  });
}

bool Hazards::same_with(std::span<const Footprint> moved) const noexcept {
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const std::size_t step = moved[i].step;
    std::size_t next = 0;  // the first of `moved` that is not before `other`
    for (std::size_t other = 0; other < footprints_.size(); ++other) {
      const bool moves_too = next < moved.size() && moved[next].step == other;
      const Footprint& footprint = moves_too ? moved[next++] : footprints_[other];
      if (other == step || (moves_too && other < step)) continue;
      const bool waits = waits_[other > step ? pair(other, step) : pair(step, other)];
      if (conflict(moved[i], footprint) != waits) return false;
    }
  }
  return true;
}

void Hazards::replace(std::span<Footprint> moved) noexcept {
  for (Footprint& footprint : moved) std::swap(footprints_[footprint.step], footprint);
}

}  // namespace ai::detail
