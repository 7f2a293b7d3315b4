#!/usr/bin/env bash
# Fails unless the C++ block of README.md is samples/minimal.cpp, character by character. --fix puts it there.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ${1-} == --fix ]]; then
  updated=$(mktemp)
  awk '
    inside && /^```$/ { inside = 0 }
    !inside { print }
    /^```cpp$/ && !seen { inside = seen = 1; while ((getline line < "samples/minimal.cpp") > 0) print line }
  ' README.md > "$updated"
  cat "$updated" > README.md
  rm "$updated"
fi
diff -u samples/minimal.cpp \
  <(awk '/^```/ { inside = ($0 == "```cpp" && !seen); seen += inside; next } inside' README.md)
echo "README.md shows samples/minimal.cpp"
