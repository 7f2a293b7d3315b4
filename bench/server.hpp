#pragma once

#include <iosfwd>

namespace bench {

/// Answers requests, one JSON object a line, until "quit" or the end of `in`: what bench/run talks
/// to. Every reply is one line with "ok"; docs/performance.md has the protocol.
void serve(std::istream& in, std::ostream& out);

}  // namespace bench
