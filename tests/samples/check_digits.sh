#!/usr/bin/env bash
# check_digits.sh PROGRAM TARGET: trains five seeds of the digits sample; their mean test accuracy must be 0.97 or
# better. Exit code 77 (skipped) where the target is not available.
set -euo pipefail

program=$1 target=$2
if ! output=$("$program" --target "$target" 2>&1); then
  printf '%s\n' "$output"
  if [[ $target == cuda && $output == *"digits: Unsupported:"* ]]; then
    echo "skipped: ${output##*Unsupported: }"
    exit 77
  fi
  exit 1
fi
printf '%s\n' "$output"
awk '$1 == "accuracy" { seen = 1; good = $2 >= 0.97 } END { exit !(seen && good) }' <<< "$output" || {
  echo "expected a line 'accuracy 0.97' or better"
  exit 1
}
