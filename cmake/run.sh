#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does everything from a fresh Debian 12: installs what is missing, configures, builds and runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: bash cmake/run.sh demo|test
  demo   builds the examples and trains char_gpt, with its table and plot in build/demo
  test   builds and runs all tests with g++, compiles device code for CUDA and HIP and checks it (no GPU is needed), then
         runs the core tests with clang's sanitizers
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

# Puts nvcc on the PATH: the one that is there, that of /usr/local/cuda, or NVIDIA's packages on PyPI in build/cuda.
find_nvcc() {
  if ! command -v nvcc > /dev/null; then
    local cuda=/usr/local/cuda
    if [[ ! -x $cuda/bin/nvcc ]]; then
      cuda="$PWD/build/cuda"
      if [[ ! -x $cuda/bin/nvcc ]]; then
        install python3-venv ca-certificates
        python3 -m venv build/cuda_packages
        build/cuda_packages/bin/pip install --quiet --disable-pip-version-check \
          nvidia-{cuda-nvcc,nvvm,cuda-crt,cuda-runtime}'==13.0.*'
        ln -sfn "$(echo "$PWD"/build/cuda_packages/lib/python3*/site-packages/nvidia/cu13)" "$cuda"
      fi
    fi
    export PATH="$cuda/bin:$PATH"
  fi
  echo "nvcc is $(command -v nvcc): $(nvcc --version | grep release)"
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
    nlohmann-json3-dev zlib1g-dev dict-jargon git ca-certificates libopenmpi-dev openmpi-bin python3 clang-22 clang-tools-22 lld-22 \
    clang-format-14 clang-tidy-14 doxygen
  find_nvcc
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
