#include "long_graph.hpp"

#include <string>

#include "errors.hpp"

namespace bench {

void LongGraphCheck::demand(Mode mode, const std::function<Checked()>& run) {
  if (mode == Mode::TrainStep) return;
  if (!checked_) checked_ = run();
  if (checked_->good()) return;
  throw Failed("wrong result of " + std::to_string(kManyCopies) + " copies: " + checked_->worst);
}

}  // namespace bench
