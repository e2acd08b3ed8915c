#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What it costs to include loft/loft.hpp: preprocessed lines, and CPU seconds over an empty file. Fails beyond the limits.
set -euo pipefail

line_limit=30000
second_limit=0.35

usage() {
  echo "usage: bash bench/compile_cost.sh [--lines-only] [compiler [include folder]]" >&2
  exit 2
}

lines_only=
if [[ "${1:-}" == --lines-only ]]; then
  lines_only=yes
  shift
fi
(( $# <= 2 )) || usage
compiler="${1:-g++}"
include="${2:-$(dirname "${BASH_SOURCE[0]}")/../include}"
folder="$(mktemp -d)"
trap 'rm -r "$folder"' EXIT
: > "$folder/empty.cpp"
echo '#include "loft/loft.hpp"' > "$folder/loft.cpp"

# The least user time of several compilations: what else the machine does counts little.
TIMEFORMAT=%U
seconds() {
  local best=1000 now
  for _ in 1 2 3 4 5 6 7; do
    now="$( { time "$compiler" -std=c++20 -O2 -I "$include" -c "$1" -o "$folder/out.o"; } 2>&1 )"
    best="$(awk -v a="$best" -v b="$now" 'BEGIN { print (a < b ? a : b) }')"
  done
  echo "$best"
}

lines="$("$compiler" -std=c++20 -E -I "$include" "$folder/loft.cpp" | wc -l)"
over="$(awk -v a="$(seconds "$folder/loft.cpp")" -v b="$(seconds "$folder/empty.cpp")" 'BEGIN { printf "%.2f", a - b }')"
echo "lines: $lines of $line_limit"
echo "seconds: $over of $second_limit"
status=0
if (( lines > line_limit )); then
  echo "loft/loft.hpp has more than $line_limit preprocessed lines" >&2
  status=1
fi
if [[ -z "$lines_only" ]] && awk -v a="$over" -v b="$second_limit" 'BEGIN { exit !(a > b) }'; then
  echo "loft/loft.hpp takes more than $second_limit s" >&2
  status=1
fi
exit "$status"
