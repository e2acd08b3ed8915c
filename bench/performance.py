#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the host path and the cost of the header, and writes docs/performance.md.

usage: python3 bench/performance.py [--compiler g++] [--build build/performance] [--repeat 3]
       python3 bench/performance.py --gpu gpu.json [--peers peers.json]

The benchmarks take turns with a copy of their input; of `--repeat` runs the one with the middle ratio counts. With --gpu
nothing is measured: the section on GPUs is written from what bench/gpu_bench.cu and bench/gpu_peers.py left on a machine
that has one. Each of the two keeps the other's part of the page.
"""
import argparse
import datetime
import json
import math
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


GPU_TARGETS = {
    "MXFP4 row, nearest": 0.96, "MXFP8 row": 0.96, "NVFP4 row, amax known": 0.93, "MXFP4 row, stochastic": 0.90,
    "MXFP4 row from float": 0.93, "MXFP8 row + transposed": 0.82, "MXFP4 row + transposed": 0.75,
    "NVFP4 16x16 tiles, row + transposed": 0.75, "Hadamard 16": 0.95, "Hadamard 32": 0.95, "Hadamard 128": 0.95,
    "Hadamard 32 + MXFP4": 0.80, "signed Hadamard 16 + stochastic NVFP4": 0.70, "MXFP4 to bf16": 0.95,
    "norm of one tensor": 0.96, "norm of 146 tensors": 0.90, "MXFP4 + norm": 0.93,
}
GPU_MARK = "<!-- GPUs: written by --gpu -->"
GPU_NOTES = "<!-- Notes on GPUs: written by hand -->"


def gpu_section(measured, peers):
    """The table of bench/gpu_bench.cu's medians: ratios to the copy of the same tensor, of the largest tensor for lists."""
    context, times, sizes = measured["context"], {}, {}
    for result in measured["benchmarks"]:
        if result.get("aggregate_name") == "median":
            name, shape = (result["run_name"].split("/") + [""])[:2]
            shape = shape if "x" in shape else ""
            times[name, shape], sizes[name, shape] = result["real_time"], result["bytes"]
    shapes = sorted({shape for _, shape in times if shape}, key=lambda shape: -math.prod(map(int, shape.split("x"))))
    rate = {shape: sizes["copy bf16", shape] / times["copy bf16", shape] for shape in shapes}

    def ratio(name, shape):
        return sizes[name, shape] / times[name, shape] / rate[shape or shapes[0]]

    lines = [
        GPU_MARK, "", "## GPUs", "",
        "Written by `python3 bench/performance.py --gpu gpu.json --peers peers.json`; do not edit. Commands: at the top of `bench/gpu_bench.cu`.", "",
        f"- Chip: {context['chip']}; compiler: {context['compiler']}, `-O3`; date of the run: {context['date'][:10]}",
        "- A copy of the same tensor in the same process ran at "
        + ", ".join(f"{rate[shape] / 1e3:.0f} GB/s ({shape})" for shape in shapes) + ", read and written",
        "- Medians of 31 samples of 10 launches; every output is compared with the host to the bit before it is timed", "",
        "`ratio`: bytes read and written a second over those of the copy. bfloat16 unless it says float.", "",
        "| kernel | target | " + " | ".join(f"{shape}, us" for shape in shapes[:1])
        + "".join(f" | ratio {shape}" for shape in shapes) + " |",
        "| --- | ---: " + "| ---: " * (len(shapes) + 1) + "|",
    ]
    names = list(dict.fromkeys(name for name, _ in times if not name.startswith("copy")))
    for name in names:
        at = shapes[0] if (name, shapes[0]) in times else ""
        target = GPU_TARGETS.get(name)
        cells = [f"{ratio(name, shape):.2f}" if (name, shape) in times else "" for shape in shapes]
        if not at:
            cells[0] = f"{ratio(name, ''):.2f}"
        if target and ratio(name, at) < target:
            cells[0] += " (missed)"
        lines.append(f"| {name} | {f'{target:.2f}' if target else ''} | {times[name, at]:.1f} | " + " | ".join(cells) + " |")
    if peers:
        lines += ["", f"Beside it, what PyTorch {peers['torch']} and Triton {peers['triton']} make of the same work on that machine "
                  "(`bench/gpu_peers.py`, replayed as a graph; its own copy is the reference):", "",
                  "| program | shape | us | ratio |", "| --- | --- | ---: | ---: |"]
        for result in peers["benchmarks"]:
            name, shape = result["name"].split("/")
            lines.append(f"| {name} | {shape} | {result['microseconds']:.1f} | {result['ratio']:.2f} |")
    return "\n".join(lines + [""])


def page(results, loads, cost, compiler):
    version = output_of(compiler, "--version").splitlines()[0]
    copies = [result["copy_GB/s"] for result in results.values() if "copy_GB/s" in result]
    lines = [
        "# Performance of the host path", "",
        "Written by `python3 bench/performance.py`; do not edit. The source is plain C++20 in GNU vector types: one template for",
        "all formats, no intrinsics.", "",
        f"- Processor: {processor()}, {os.cpu_count()} cores; compiler: {version}, `{FLAGS}`",
        f"- Date: {datetime.date.today().isoformat()}; load of the machine before the runs: "
        + ", ".join(f"{load:.1f}" for load in loads),
        f"- Copies of the inputs ran at {min(copies):.1f} to {max(copies):.1f} GB/s, read and written",
        "- Command: `build/performance/bench/host_bench`, 16 777 216 elements; every result is compared with scalar code first", "",
        "`ratio`: bytes read and written a second over those of a `memcpy` of the input, in CPU time of the thread, the best of 40 turns each;",
        "for two threads: wall-clock time of one thread over that of two, the best of 200 or 400; nearest is bound by the memory that both share,",
        "stochastic rounding by arithmetic. A `memcpy` this long does not read the lines it writes,",
        "which a ratio of a kernel with large outputs has to pay for. "
        "Kernels that arithmetic binds keep their elements a second when copies get faster, and lose in the ratio.", "",
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
    parser.add_argument("--gpu", type=pathlib.Path, help="results of bench/gpu_bench.cu, as JSON")
    parser.add_argument("--peers", type=pathlib.Path, help="results of bench/gpu_peers.py, as JSON")
    options = parser.parse_args()
    host, mark, gpu = (options.out.read_text() if options.out.exists() else "").partition(GPU_MARK)
    if options.gpu:
        peers = json.loads(options.peers.read_text()) if options.peers else None
        notes = gpu.partition(GPU_NOTES)
        section = gpu_section(json.loads(options.gpu.read_text()), peers)
        options.out.write_text(host.rstrip() + "\n\n" + section + ("\n" + notes[1] + notes[2] if notes[1] else ""))
        print(f"wrote {options.out}")
        return
    program = build(options.compiler, options.build)
    results, loads = measure(program, options.repeat)
    cost, within = compile_cost(options.compiler)
    options.out.write_text(page(results, loads, cost, options.compiler) + ("\n" + mark + gpu if mark else ""))
    late = [name for name, result in results.items() if result["ratio"] < result["target"]]
    print(f"wrote {options.out}; below target: {', '.join(late) if late else 'none'}")
    if not within:
        raise SystemExit("the header costs more than its limits")


if __name__ == "__main__":
    main()
