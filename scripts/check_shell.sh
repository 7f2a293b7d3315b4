#!/usr/bin/env bash
# Runs shellcheck over every shell script of the project; skipped (exit code 77) where it is absent.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v shellcheck > /dev/null; then
  echo "skipped: shellcheck is not installed"
  exit 77
fi
mapfile -t files < <({ find . -path ./build -prune -o -path ./.git -prune -o -type f \
  -exec grep -lE '^#!.*\b(ba)?sh$' {} + ; } | sort)
shellcheck --external-sources "${files[@]}"
echo "${#files[@]} scripts pass"
