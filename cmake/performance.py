#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the host path and the cost of the header, and writes docs/performance.md.

usage: python3 cmake/performance.py [--compiler g++] [--build build/performance] [--repeat 3]

The benchmarks take turns with a copy of their input; of `--repeat` runs the one with the middle ratio counts.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = "-O3 -march=native"


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def build(compiler, folder):
    """bench/host_bench, built by the project's own CMake."""
    options = [f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Release", "-DLOFT_BUILD_TESTS=OFF",
               "-DLOFT_BUILD_EXAMPLES=OFF"]
    output_of("cmake", "-S", str(ROOT), "-B", str(folder), *options)
    output_of("cmake", "--build", str(folder), "--target", "host_bench")
    return folder / "bench" / "host_bench"


def measure(program, repeat):
    """name -> the results of the run with the middle ratio; and the load of the machine before each run."""
    runs, loads = {}, []
    for _ in range(repeat):
        loads.append(os.getloadavg()[0])
        for result in json.loads(output_of(str(program), "--benchmark_format=json"))["benchmarks"]:
            if result.get("error_occurred"):
                raise SystemExit(f"{result['name']}: {result['error_message']}")
            runs.setdefault(result["name"].split("/iterations")[0], []).append(result)
    middle = {}
    for name, results in runs.items():
        ratio = statistics.median_low(result["ratio"] for result in results)
        middle[name] = next(result for result in results if result["ratio"] == ratio)
    return middle, loads


def compile_cost(compiler):
    """(lines, seconds, True where both are within their limits); the limits stand in the script."""
    script = subprocess.run(["bash", str(ROOT / "bench" / "compile_cost.sh"), compiler], capture_output=True, text=True)
    found = re.findall(r"(?:lines|seconds): (\S+) of (\S+)", script.stdout)
    if len(found) != 2:
        raise SystemExit(script.stderr)
    return found, script.returncode == 0


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def page(results, loads, cost, compiler):
    version = output_of(compiler, "--version").splitlines()[0]
    copies = [result["copy_GB/s"] for result in results.values() if "copy_GB/s" in result]
    lines = [
        "# Performance of the host path", "",
        "Written by `python3 cmake/performance.py`; do not edit. The source is plain C++20 in GNU vector types: one template for",
        "all formats, no intrinsics.", "",
        f"- Processor: {processor()}, {os.cpu_count()} cores; compiler: {version}, `{FLAGS}`",
        f"- Date: {datetime.date.today().isoformat()}; load of the machine before the runs: "
        + ", ".join(f"{load:.1f}" for load in loads),
        f"- Copies of the inputs ran at {min(copies):.1f} to {max(copies):.1f} GB/s, read and written",
        "- Command: `build/performance/bench/host_bench`, 16 777 216 elements; every result is compared with scalar code first", "",
        "`ratio`: bytes read and written a second over those of a `memcpy` of the input, in CPU time of the thread, the best of 40 turns each;",
        "for two threads: wall-clock time of one thread over that of two, the best of 400. A `memcpy` this long does not read the lines it writes,",
        "which a ratio of a kernel with large outputs has to pay for.", "",
        "| kernel | target | ratio | Melem/s |", "| --- | ---: | ---: | ---: |",
    ]
    for name, result in results.items():
        missed = "" if result["ratio"] >= result["target"] else " (missed)"
        lines.append(f"| {name} | {result['target']:.2f} | {result['ratio']:.2f}{missed} | {result['Melem/s']:.0f} |")
    lines += [
        "", "## Cost of the header", "", "`bash bench/compile_cost.sh` fails beyond the limits; the ctest entry `headers.cost` checks the lines.", "",
        "| `loft/loft.hpp` | limit | measured |", "| --- | ---: | ---: |",
        f"| preprocessed lines | {cost[0][1]} | {cost[0][0]} |",
        f"| CPU seconds over an empty file | {cost[1][1]} | {cost[1][0]} |", "",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "performance")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "performance.md")
    options = parser.parse_args()
    program = build(options.compiler, options.build)
    results, loads = measure(program, options.repeat)
    cost, within = compile_cost(options.compiler)
    options.out.write_text(page(results, loads, cost, options.compiler))
    late = [name for name, result in results.items() if result["ratio"] < result["target"]]
    print(f"wrote {options.out}; below target: {', '.join(late) if late else 'none'}")
    if not within:
        raise SystemExit("the header costs more than its limits")


if __name__ == "__main__":
    main()
