#!/usr/bin/env bash
# What scripts/summary.sh makes of a report by ctest: counts, failures, and why something was skipped.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat > "$folder/tests-host.xml" << 'END'
<testsuite>
	<testcase name="doctest" status="run">
		<system-out>[doctest] test cases:  5 |  5 passed | 0 failed | 1 skipped</system-out>
	</testcase>
	<testcase name="pytest" status="run">
		<system-out>...
SKIPPED [1] tests/python/test_torch.py:22: torch is not installed
SKIPPED [1] tests/python/test_torch.py:44: torch is not installed
SKIPPED [1] tests/python/test_numpy.py: one &amp; only: no NumPy
7 passed, 0 failed, 4 skipped
</system-out>
	</testcase>
	<testcase name="without a GPU" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out>SKIPPED [9] tests/python/gpu/test_x.py:1: no GPU
skipped: no GPU
</system-out>
	</testcase>
	<testcase name="broken" status="fail">
		<failure message=""/>
		<system-out>what went wrong</system-out>
	</testcase>
</testsuite>
END

if "$root/scripts/summary.sh" "$folder/tests-host.xml" > "$folder/said"; then
  echo "a failed test gave exit code 0"
  exit 1
fi
wanted=(
  "FAILED  host: broken"
  "    what went wrong"
  "host      12 passed, 1 failed, 6 skipped"
  "skipped 2: torch is not installed (pytest)"
  "skipped 1: one & only: no NumPy (pytest)"
  "skipped 2: test cases that their own program leaves out (doctest, pytest)"
  "skipped 1: no GPU (without a GPU)"
  "12 passed, 1 failed, 6 skipped"
)
diff <(printf '%s\n' "${wanted[@]}" | sort) <(sort "$folder/said")
[[ $(tail -n 1 "$folder/said") == "${wanted[-1]}" ]]
