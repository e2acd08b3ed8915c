#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does everything from a fresh Debian 12: installs what is missing, configures, builds and runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: bash cmake/run.sh demo|test
  demo   builds the examples and trains char_gpt, with its table and plot in build/demo
  test   builds and runs all tests with g++, then the core tests with clang's sanitizers
TEXT
}

# install <package ...>: asks apt only when a package is missing, so that a second run needs neither root nor network.
install() {
  if ! command -v dpkg-query > /dev/null; then
    echo "not a Debian system; these packages, or what they hold, have to be there: $*" >&2
    return
  fi
  local missing=() package
  for package in "$@"; do
    if [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2> /dev/null || true)" != installed ]]; then
      missing+=("$package")
    fi
  done
  if (( ${#missing[@]} == 0 )); then
    return
  fi
  local as_root=()
  if (( EUID != 0 )); then
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

demo() {
  install g++ cmake ninja-build libeigen3-dev libcli11-dev zlib1g-dev dict-jargon
  cmake --preset demo
  cmake --build --preset demo
  build/demo/examples/char_gpt/char_gpt --csv build/demo/char_gpt.csv --plot build/demo/char_gpt.svg
  echo "wrote build/demo/char_gpt.csv and build/demo/char_gpt.svg"
}

run_tests() {
  install g++ cmake ninja-build clang-14 libclang-rt-14-dev doctest-dev libbenchmark-dev libeigen3-dev libcli11-dev \
    nlohmann-json3-dev zlib1g-dev dict-jargon git ca-certificates
  local preset
  for preset in ci asan; do
    cmake --preset "$preset"
    cmake --build --preset "$preset"
    ctest --preset "$preset"
  done
}

# As many jobs as there are processors, unless the caller says otherwise.
export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$(nproc)}"

if (( $# != 1 )); then
  usage >&2
  exit 2
fi
case "$1" in
  demo) demo ;;
  test) run_tests ;;
  *) usage >&2; exit 2 ;;
esac
