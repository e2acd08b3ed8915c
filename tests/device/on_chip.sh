#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs every test for a GPU, on the machine that has it: CUDA 13 for sm_*, ROCm 7 for gfx*.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if (( $# != 1 )); then
  echo "usage: bash tests/device/on_chip.sh sm_90|sm_100a|sm_103a|sm_120a|gfx942|gfx950" >&2
  exit 2
fi
target=$1
folder=build/on_chip/$target
mkdir -p "$folder"
common=(-std=c++20 -O2 -I include -I tests/gpu)
case "$target" in
  sm_*) compiler=(nvcc "${common[@]}" -arch="$target")
        fast=(--use_fast_math) ;;
  gfx*) compiler=(hipcc "${common[@]}" --offload-arch="$target" -I tests/device/cuda_stand_in
                  -include tests/device/cuda_on_hip.hpp -x hip)
        fast=(-Xarch_device -ffast-math) ;;
  *) echo "$target is no target that this script knows" >&2; exit 2 ;;
esac

failed=()
# program <name> <source> [<flag> ...] [-- <argument> ...]: builds and runs one; goes on where it fails.
program() {
  local name=$1 source=$2 flags=() arguments=()
  shift 2
  while (( $# > 0 )) && [[ $1 != -- ]]; do flags+=("$1"); shift; done
  if (( $# > 0 )); then shift; arguments=("$@"); fi
  echo "== $name"
  if ! "${compiler[@]}" "${flags[@]}" "$source" -o "$folder/$name" || ! "$folder/$name" "${arguments[@]}"; then
    failed+=("$name")
  fi
}

program native_on_chip tests/device/native_on_chip.cu
program same_bits tests/gpu/same_bits.cu -- full
program same_bits_fast tests/gpu/same_bits.cu "${fast[@]}"
for number in fp16_t float; do
  program "launches_formats_$number" tests/gpu/launches_formats.cu "-DLOFT_TEST_NUMBER=$number"
done
program gradients tests/gpu/gradients.cu
program gradients_fast tests/gpu/gradients.cu "${fast[@]}"
program launches_large tests/gpu/launches_large.cu
for part in 0 1 2; do
  program "launches_recipes_$part" tests/gpu/launches_recipes.cu "-DLOFT_TEST_PART=$part"
done
# Plain, with fast arithmetic on the GPU alone, and with the tiles of AMD's chips.
for mode in plain fast amd; do
  case "$mode" in
    plain) flags=() number=bf16_t ;;
    fast) flags=("${fast[@]}") number=bf16_t ;;
    amd) flags=(-DLOFT_TEST_SHARED_LIMIT=65536) number=float ;;
  esac
  program "launches_formats_$mode" tests/gpu/launches_formats.cu "-DLOFT_TEST_NUMBER=$number" "${flags[@]}"
  for part in 1 2; do
    program "launches_rules_${part}_$mode" tests/gpu/launches_rules.cu "-DLOFT_TEST_PART=$part" "${flags[@]}"
  done
  program "launches_rotations_$mode" tests/gpu/launches_rotations.cu "${flags[@]}"
  if [[ $mode == amd ]]; then continue; fi
  program "launches_calls_$mode" tests/gpu/launches_calls.cu "${flags[@]}"
  program "gnmr_$mode" tests/gpu/gnmr.cu "${flags[@]}"
done

# Every kind of kernel in memory that is just as large as it has to be; CUDA has a tool that watches it.
program every_kernel tests/gpu/every_kernel.cu
if [[ $target == sm_* ]]; then
  for tool in memcheck racecheck synccheck; do
    echo "== $tool"
    if ! compute-sanitizer --tool "$tool" --error-exitcode 1 "$folder/every_kernel"; then failed+=("$tool"); fi
  done
fi

# A test that cannot fail shows nothing: this run has to.
echo "== control"
if "$folder/native_on_chip" control; then failed+=("native_on_chip control"); fi

if (( ${#failed[@]} != 0 )); then
  echo "failed on $target: ${failed[*]}"
  exit 1
fi
echo "all tests passed on $target"
