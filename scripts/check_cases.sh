#!/usr/bin/env bash
# Fails unless every case below, a failure that users of other libraries have reported, has a test whose name
# begins with its id. Cases that need a GPU or one of its captures must have one in tests/gpu.
set -euo pipefail
cd "$(dirname "$0")/.."

cases=(A1 A2 A3 A4 A6 A7 A8 A9 B1 B2 B4 B5 B6 B8 B9 B10 C1 C2 C3 C4 C5 C6 C8 C9 C11 C12 C13 C14 C15 C16 C17 C19 C20
  C22 D1 D2 D3 D5 D6 D7)
on_gpu=(A1 A2 A3 A4 A6 A7 A8 A9 B1 B2 B4 B5 B6 B8 B9 B10 C4 C5 C6 C8 C9 C12 C13 C17 D1 D2 D3 D5 D6 D7)
in_python=(B10 E3 E7 F1 F3 F4 F5 F7)
in_python_on_gpu=(B10 E3 E7 F1 F3 F4 F5 F7)

# The ids that begin names of tests below the given folders, one a line. A name is what follows TEST_CASE( or
# TEST_CASE_FIXTURE(x, perhaps on the next line; several ids may stand before its sentence: "B7 B8: ...".
ids_below() {
  find "$@" -name '*.cpp' -exec cat {} + | tr '\n' ' ' |
    grep -oE 'TEST_CASE(_TEMPLATE|_FIXTURE)?\( *([A-Za-z_:]+, *)?"[A-F][0-9]+([, ]+[A-F][0-9]+)*[: ]' |
    sed 's/.*"//' | grep -oE '[A-F][0-9]+' | sort -u
}

# The same for pytest: def test_f5_transposed_...
python_ids_below() {
  find "$@" -name 'test_*.py' -exec grep -ohE '^ *def test_([a-f][0-9]+_)+' {} + | grep -oE '[a-f][0-9]+_' |
    tr -d _ | tr a-f A-F | sort -u
}

# report IDS_BELOW FOLDER ID...: says which ids no test below the folder is named after.
failed=0
report() {
  local ids_below=$1 folder=$2 missing
  shift 2
  missing=$(comm -23 <(printf '%s\n' "$@" | sort -u) <("$ids_below" "$folder") | sort -V | paste -sd' ')
  [[ -n $missing ]] || return 0
  echo "no test in $folder is named after: $missing"
  failed=1
}

report ids_below tests "${cases[@]}"
report ids_below tests/gpu "${on_gpu[@]}"
report python_ids_below tests/python "${in_python[@]}"
report python_ids_below tests/python/gpu "${in_python_on_gpu[@]}"
[[ $failed -eq 0 ]] || exit 1
echo "$((${#cases[@]} + ${#in_python[@]})) cases have a test named after them, \
$((${#on_gpu[@]} + ${#in_python_on_gpu[@]})) of them on a GPU"
