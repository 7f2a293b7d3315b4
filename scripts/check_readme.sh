#!/usr/bin/env bash
# Fails unless the C++ block of README.md is samples/minimal.cpp, character by character.
set -euo pipefail
cd "$(dirname "$0")/.."

diff -u samples/minimal.cpp <(awk '/^```/ { inside = ($0 == "```cpp" && !seen); seen += inside; next } inside' README.md)
echo "README.md shows samples/minimal.cpp"
