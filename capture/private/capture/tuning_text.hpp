#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ai/status.hpp"
#include "capture/tuning_cache.hpp"

namespace ai::detail {

using TuningEntries = std::map<TuningMachine, TuningCache::Choices>;

/// What the text of a tuning file says.
struct TuningText {
  TuningEntries entries = {};
  StatusCode code = StatusCode::Ok;
  std::string problem = {};  ///< what is wrong, as what follows the file's name in a sentence
  bool replaceable = true;   ///< false: it is no tuning file, or of a newer version
};

/// Reads a tuning file's text, whatever it is. May throw std::bad_alloc, as may what is below.
[[nodiscard]] TuningText parse_tuning(std::string_view text);

/// The text with `added` in it. Keeps the entries of `text` as they are, with fields that this
/// version does not know, but for those that parse_tuning() passes over. Sorted, a line a problem.
[[nodiscard]] std::string merge_tuning(std::string_view text, const TuningEntries& added);

}  // namespace ai::detail
