#!/usr/bin/env bash
# Fails if a C++ or CUDA source is not formatted as .clang-format says. Another version of clang-format
# would format otherwise, so without version 14 the check is skipped (exit code 77). --fix formats.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=14
formatter=
for name in "clang-format-$wanted" clang-format; do
  if command -v "$name" > /dev/null && "$name" --version | grep -q "version $wanted\."; then
    formatter=$name
    break
  fi
done
if [[ -z $formatter ]]; then
  echo "skipped: clang-format $wanted is not installed"
  exit 77
fi

mapfile -t files < <(find bench capture kernels lib python samples tests -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' \) 2> /dev/null | sort)
if [[ ${1-} == --fix ]]; then
  "$formatter" -i "${files[@]}"
else
  "$formatter" --dry-run -Werror "${files[@]}"
  echo "${#files[@]} files are formatted"
fi
