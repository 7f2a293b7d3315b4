# shellcheck shell=bash
# What ./demo and ./check share: finding and installing what is missing, and steps with a log each.
# Sourced from the project's root.

logs=build/logs
step_number=0
step_count=0

say() { printf '%s\n' "$*"; }
stop() { printf '%s\n' "$*" >&2; exit 1; }

# ---------------------------------------------------------------------------------------------------
# What has to be installed. A package is wanted by `need PACKAGE WHY`; install_missing gets them all.

missing_packages=()
missing_reasons=()

need() {
  missing_packages+=("$1")
  missing_reasons+=("  $(printf '%-16s' "$1") $2")
}

# at_least WANTED FOUND: whether version FOUND is WANTED or newer.
at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

cmake_version() { "$1" --version 2> /dev/null | sed -n 's/^cmake version \([0-9.]*\).*/\1/p'; }

# Whether the cmake on PATH, or the one installed below build/tools, is new enough; puts it on PATH.
have_cmake() {
  if [[ -x build/tools/bin/cmake ]]; then
    PATH=$PWD/build/tools/bin:$PATH
  fi
  command -v cmake > /dev/null && at_least 3.25 "$(cmake_version cmake)"
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

can_install() {
  command -v apt-get > /dev/null || return 1
  [[ $(id -u) -eq 0 ]] || sudo -n true 2> /dev/null
}

apt_updated=no
apt_update_once() {
  if [[ $apt_updated == no ]]; then
    apt_updated=yes
    as_root apt-get update > "$logs/apt-update.log" 2>&1 ||
      say "apt-get update failed (see $logs/apt-update.log); going on with the lists that are there"
  fi
}

# Whether this system's package lists have PACKAGE.
available() {
  apt-cache show "$1" > /dev/null 2>&1 || { apt_update_once; apt-cache show "$1" > /dev/null 2>&1; }
}

# Installs what was asked for with `need`, or lists it and stops.
install_missing() {
  [[ ${#missing_packages[@]} -gt 0 ]] || return 0
  say "Missing on this machine:"
  printf '%s\n' "${missing_reasons[@]}"
  if ! can_install; then
    local prefix=sudo
    [[ $(id -u) -eq 0 ]] && prefix=
    say "No rights to install them here. As an administrator, run:"
    say "  ${prefix:+$prefix }apt-get update && ${prefix:+$prefix }apt-get install --no-install-recommends ${missing_packages[*]}"
    stop "Then run $0 again."
  fi
  say "Installing: apt-get install --no-install-recommends ${missing_packages[*]}"
  apt_update_once
  if ! as_root apt-get install -y --no-install-recommends "${missing_packages[@]}" \
    > "$logs/apt-install.log" 2>&1; then
    tail -n 20 "$logs/apt-install.log"
    stop "apt-get could not install them (whole log: $logs/apt-install.log)."
  fi
  missing_packages=()
  missing_reasons=()
}

# Distributions with an older CMake get a newer one from PyPI, inside build/tools.
install_newer_cmake() {
  say "CMake 3.25 is the oldest that works, and this system offers $(cmake_version cmake); installing a newer one into build/tools"
  python3 -c 'import venv, ensurepip' 2> /dev/null || need python3-venv "to install a newer CMake into build/tools"
  install_missing
  if ! { python3 -m venv build/tools && build/tools/bin/pip install --quiet 'cmake>=3.25,<4'; } \
    > "$logs/cmake-install.log" 2>&1; then
    tail -n 20 "$logs/cmake-install.log"
    stop "CMake >= 3.25 could not be installed (whole log: $logs/cmake-install.log). Get it from https://cmake.org/download."
  fi
}

# The tools without which nothing can be built.
install_build_tools() {
  mkdir -p "$logs"
  have_cmake || command -v cmake > /dev/null || need cmake "configures the build (3.25 or newer)"
  command -v ninja > /dev/null || need ninja-build "runs the build"
  command -v "${CXX:-c++}" > /dev/null || need g++ "compiles C++20"
  [[ -e /usr/include/nlohmann/json.hpp || -e /usr/local/include/nlohmann/json.hpp ]] ||
    need nlohmann-json3-dev "reads and writes the tuning file"
}

# Called once everything asked for is installed.
check_build_tools() {
  have_cmake || install_newer_cmake
  have_cmake || stop "CMake 3.25 or newer is needed, found $(cmake_version cmake)."
  if ! printf '#include <concepts>\n#include <span>\nint main() {}\n' |
    "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only - 2> "$logs/compiler.log"; then
    stop "${CXX:-c++} does not compile C++20 (g++ 11 or clang++ 14 is the oldest that does): $(head -n 1 "$logs/compiler.log")"
  fi
}

# ---------------------------------------------------------------------------------------------------
# Python: its module is built and tested where there is an interpreter with headers, and where PyPI can be reached.

# A Python of at least 3.10 that can make virtual environments and compile modules, or the reason why not.
# Sets `python` and `why_no_python`.
find_python() {
  python=$(command -v python3) || python=
  why_no_python=
  if [[ -z $python ]]; then
    why_no_python="python3 is not installed"
  elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    why_no_python="$python is of $("$python" --version), and 3.10 is the oldest that works"
  elif ! "$python" -c 'import venv, ensurepip' 2> /dev/null; then
    why_no_python="$python cannot make virtual environments (Debian: python3-venv)"
  elif ! "$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2> /dev/null; then
    why_no_python="$python has no headers (Debian: python3-dev)"
  fi
  [[ -z $why_no_python ]]
}

# Asks for what the Python module needs, where it can be installed; without, its tests are left out.
need_python() {
  find_python && return 0
  can_install || return 0
  [[ -z $python || $python == /usr/bin/python3 ]] || return 0  # Debian's packages are for Debian's Python
  local package
  for package in python3-dev python3-venv; do
    if available "$package"; then
      need "$package" "builds and tests the Python module"
    fi
  done
}

# Makes build/python-env with tests/python/requirements.txt in it. Sets `python_options`, which CMake is given.
prepare_python() {
  local folder=$PWD/build/python-env requirements=tests/python/requirements.txt
  if find_python; then
    local wanted
    wanted="$("$python" -c 'import sys; print(sys.version, sys.base_prefix)') $(cat "$requirements")"
    if [[ $(cat "$folder/installed" 2> /dev/null) != "$wanted" ]]; then
      rm -rf "$folder"
      say "Installing what the Python module is built and tested with into build/python-env"
      if { "$python" -m venv "$folder" && "$folder/bin/python" -m pip install --quiet --requirement "$requirements"; } \
        > "$logs/python-env.log" 2>&1; then
        printf '%s\n' "$wanted" > "$folder/installed"
      else
        tail -n 5 "$logs/python-env.log"
        why_no_python="$requirements could not be installed (whole log: $logs/python-env.log)"
      fi
    fi
  fi
  if [[ -z $why_no_python ]]; then
    python_options=(-DGE_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$folder/bin/python")
  else
    say "Leaving out the Python module and its tests: $why_no_python."
    python_options=(-DGE_BUILD_PYTHON=OFF "-DGE_WHY_NO_PYTHON=$why_no_python")
  fi
}

# ---------------------------------------------------------------------------------------------------
# CUDA: used where it is, never installed.

find_nvcc() {
  local candidate
  for candidate in "${CUDACXX-}" nvcc "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" \
    "${CUDA_PATH:+$CUDA_PATH/bin/nvcc}" /usr/local/cuda/bin/nvcc; do
    if [[ -n $candidate ]] && command -v "$candidate" > /dev/null; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

# choose_preset auto|host|cuda: sets `preset`, `nvcc` and `why_host`.
choose_preset() {
  nvcc=$(find_nvcc) || nvcc=
  why_host=
  local release=
  [[ -z $nvcc ]] || release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
  if [[ $1 == host ]]; then
    why_host="--host was asked for"
  elif [[ -z $nvcc ]]; then
    why_host="no CUDA toolkit (nvcc) was found"
  elif ! at_least 13.0 "${release:-0}"; then
    why_host="$nvcc is of CUDA ${release:-unknown}, and 13.0 is the oldest that works"
  fi
  if [[ -z $why_host ]]; then
    preset=cuda
  elif [[ $1 == cuda ]]; then
    stop "--cuda was asked for, but $why_host. The toolkit is not installed by this script: see https://developer.nvidia.com/cuda-downloads."
  else
    preset=host
  fi
}

# ---------------------------------------------------------------------------------------------------
# Steps

# The last "[12/340]" that ninja or ctest wrote.
last_count() { tail -c 4000 "$1" 2> /dev/null | grep -oE '\[[0-9]+/[0-9]+\]|^ *[0-9]+/[0-9]+ Test' | tail -n 1 | tr -d '[]A-Za-z '; }

# step NAME LOG COMMAND...: runs the command with its output in LOG; shows how far it is on a terminal.
# Returns the command's exit code, after showing the end of the log if that is not 0.
step() {
  local name=$1 log=$logs/$2 code=0 started=$SECONDS
  shift 2
  step_number=$((step_number + 1))
  local title="[$step_number/$step_count] $name"
  if [[ -t 1 ]]; then
    "$@" > "$log" 2>&1 < /dev/null &
    local pid=$!
    trap 'kill "$pid"; exit 130' INT TERM  # a background process does not see the terminal's interrupt
    while kill -0 "$pid" 2> /dev/null; do
      printf '\r\033[K%s ... %ss %s' "$title" "$((SECONDS - started))" "$(last_count "$log")"
      sleep 0.5
    done
    wait "$pid" || code=$?
    trap - INT TERM
    printf '\r\033[K'
  else
    "$@" > "$log" 2>&1 < /dev/null || code=$?
  fi
  if [[ $code -eq 0 ]]; then
    say "$title: done in $((SECONDS - started)) s"
  else
    say "$title: FAILED after $((SECONDS - started)) s (exit code $code)"
  fi
  return "$code"
}

show_end_of() {
  say "---- end of $logs/$1 ----"
  tail -n "${2:-40}" "$logs/$1"
  say "---- whole log: $logs/$1 ----"
}

# configure PRESET [OPTION...]: quick when nothing has changed.
configure() {
  local name=$1
  shift
  local options=("$@")
  if command -v ccache > /dev/null; then
    export CCACHE_BASEDIR=$PWD  # the wheel that the tests build from the sdist finds the objects of the build tree
    options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  if [[ $name == *cuda ]]; then
    options+=("-DCMAKE_CUDA_COMPILER=$nvcc")
  fi
  if ! step "Configuring ($name)" "configure-$name.log" cmake --preset "$name" "${options[@]}"; then
    show_end_of "configure-$name.log"
    return 1
  fi
}

# build PRESET [TARGET...]
build() {
  local name=$1
  shift
  local targets=()
  [[ $# -eq 0 ]] || targets=(--target "$@")
  if ! step "Building ($name)" "build-$name.log" cmake --build --preset "$name" "${targets[@]}"; then
    show_end_of "build-$name.log"
    return 1
  fi
}
