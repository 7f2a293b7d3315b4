#!/usr/bin/env bash
# summary.sh JUNIT_FILE...: reads what `ctest --output-junit` wrote; prints each failed test with the end of
# its output, the skipped ones by reason, a table of suites, and last `N passed, N failed, N skipped`.
# A doctest program counts by its test cases, as does a script that closes with `N passed, N failed`;
# everything else counts as one. Exit code 1 if anything failed.
set -euo pipefail

awk '
function unescape(text) {
  gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "\047", text)
  gsub(/&#x[0-9A-Fa-f]+;/, "", text); gsub(/&amp;/, "\\&", text)
  return text
}
function attribute(line, name,   at) {
  if (!match(line, name "=\"[^\"]*\"")) return ""
  return unescape(substr(line, RSTART + length(name) + 2, RLENGTH - length(name) - 3))
}
function number_before(line, word) {  # the number in front of `word`
  if (!match(line, "[0-9]+ " word)) return 0
  return substr(line, RSTART, RLENGTH - length(word) - 1) + 0
}
function skip(count, why) {
  skipped += count; suite_skipped[suite] += count
  if (!index(", " reasons[why] ", ", ", " name ", ")) reasons[why] = reasons[why] (reasons[why] == "" ? "" : ", ") name
  reason_count[why] += count
}
function finish(   count_passed, count_failed, count_skipped, i) {
  count_passed = 1; count_failed = 1
  if (summary != "") {
    count_passed = number_before(summary, "passed")
    count_failed = number_before(summary, "failed")
    # A program that reports no failure and yet failed (a crash, a leak) is one failure.
    if (status == "fail" && count_failed == 0) count_failed = 1
    count_skipped = number_before(summary, "skipped")
    for (i = 1; i <= told; ++i) { skip(told_count[i], told_why[i]); count_skipped -= told_count[i] }
    if (count_skipped > 0) skip(count_skipped, "test cases that their own program leaves out")
  }
  if (status == "run") {
    passed += count_passed; suite_passed[suite] += count_passed
  } else if (status == "fail") {
    if (summary != "") { passed += count_passed; suite_passed[suite] += count_passed }
    failed += count_failed; suite_failed[suite] += count_failed
    print "FAILED  " suite ": " name
    from = lines > 40 ? lines - 40 : 0
    for (i = from; i < lines; ++i) print "    " unescape(output[i])
  } else {
    if (reason == "") reason = "the test said that it cannot run here"
    skip(1, reason)
  }
}
FNR == 1 {
  suite = FILENAME; sub(/.*tests-/, "", suite); sub(/\.xml$/, "", suite)
  suites[++suite_number] = suite
}
/<testcase / {
  name = attribute($0, "name"); status = attribute($0, "status")
  reason = ""; summary = ""; lines = 0; inside = 0; told = 0
}
/<skipped/ { status = attribute($0, "message") ~ /SKIP_RETURN_CODE/ ? "skip" : "fail" }
/<failure/ { status = "fail" }
/<system-out>/ { inside = 1; sub(/.*<system-out>/, "") }
inside {
  text = $0; sub(/<\/system-out>.*/, "", text)
  output[lines++] = text
  if (text ~ /^\[doctest\] test cases:/ || text ~ /^[0-9]+ passed, [0-9]+ failed/) summary = text
  if (text ~ /^SKIPPED \[[0-9]+\] [^:]+(:[0-9]+)?: /) {  # pytest -rs: SKIPPED [count] file:line: reason
    told_count[++told] = substr(text, 10) + 0
    sub(/^SKIPPED \[[0-9]+\] [^:]+(:[0-9]+)?: /, "", text)
    told_why[told] = unescape(text)
  } else if (reason == "" && text ~ /^[Ss][Kk][Ii][Pp]/) {
    reason = unescape(text); sub(/^[A-Za-z]+:? */, "", reason)
  }
}
/<\/system-out>/ { inside = 0 }
/<\/testcase>/ { finish() }
END {
  for (i = 1; i <= suite_number; ++i) {
    s = suites[i]
    printf "%-9s %d passed, %d failed, %d skipped\n", s, suite_passed[s], suite_failed[s], suite_skipped[s]
  }
  for (reason in reasons) printf "skipped %d: %s (%s)\n", reason_count[reason], reason, reasons[reason]
  printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
  exit failed > 0
}
' "$@" /dev/null
