#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles device code for one target and checks what came out, without a GPU.

  check.py --compiler <nvcc or clang++> --target <sm_90, gfx942, ...> --source <file.cu> --work <folder> -I <folder> ...
           [--table budgets.tsv] [--expected expected.tsv] [--assembler <ptxas>] [--write]

The checks: no warning; no kernel spills registers or uses local memory, unless the table says how much; none has more
instructions than the table's number and a slack; and the instructions that are expected are there. --write puts what
was found into the table instead of comparing. The numbers of clang's CUDA code are not compared. Exit code 1 says that a check failed, and prints why.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

SLACK = 1.15
# clang's optimiser may decline to unroll a loop that asks for it: the numbers of the table show what that costs.
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-Wno-pass-failed"]
# What the names of kernels are told without: the usual arguments of templates.
SHORTER = (("(anonymous namespace)::", ""), ("loft::", ""), ("gpu::", ""), ("void ", ""), (", (nonfinite)0", ""),
           (", no_rotation", ""), (", no_output", ""), (", 128>(", ">("), (", 64>(", ", 64 rows>("), (", row_major", ""),
           ("minifloat<bf16>", "bf16_t"), ("minifloat<fp16>", "fp16_t"), ("quantized_output<", "output<"),
           ("basic_stochastic<stochastic_word<8>, philox4x32<10> >", "stochastic<8>"),
           ("basic_two_level<0, false>", "two_level"))
# An instruction of AMD's assembly. What follows a function's end is padding.
AMD_INSTRUCTION = re.compile(r"\s+(v_|s_|ds_|global_|flat_|buffer_|scratch_)")


class Failure(Exception):
    """A check that failed, told in one sentence."""


def run(command):
    """The output of a command, standard error included; a failure is the check's failure."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"does not compile: {' '.join(map(str, command))}\n{done.stdout[:6000]}")
    return done.stdout


def program(path, what):
    """The full path of a program; that it is missing is a failure, never a reason to leave the check out."""
    found = shutil.which(path)
    if not found:
        raise Failure(f"{what} was not found ({path}): 'bash cmake/run.sh test' installs it on Debian")
    return found


def short_names(names):
    """A kernel's name with its template arguments, without namespaces and parameters, for each mangled name."""
    plain = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True).stdout
    result = {}
    for mangled, name in zip(names, plain.splitlines()):
        for text, short in SHORTER:
            name = name.replace(text, short)
        depth = 0
        for i, character in enumerate(name):
            depth += {"<": 1, ">": -1}.get(character, 0)
            if character == "(" and depth == 0:
                name = name[:i]
                break
        result[mangled] = name
    return result


def code_sizes(cubin):
    """Instructions of each function of a cubin: 16 bytes each, from the section table."""
    sections = run([program("readelf", "readelf of binutils"), "-SW", cubin])
    return {
        name: int(size, 16) // 16
        for name, size in re.findall(r"\s\.text\.(\S+)\s+PROGBITS\s+\w+\s+\w+\s+(\w+)", sections)
    }


def assemble(assembler, ptx, cubin, target):
    """[function: (instructions, local bytes, spilled bytes)] of PTX text, as ptxas reports it."""
    report = run([assembler, f"-arch={target}", "-v", "-o", cubin, ptx])
    found, name, numbers = {}, None, None
    for line in report.splitlines():
        if match := re.search(r"(?:Compiling entry function|Function properties for) '?(\w+)", line):
            name = match[1]
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            numbers = (int(match[1]), int(match[2]) + int(match[3]))
            found[name] = numbers
    sizes = code_sizes(cubin)
    return {name: (size, *found.get(name, (0, 0))) for name, size in sizes.items()}


def compile_cuda(options, work):
    """PTX by nvcc or clang, then ptxas: the text, and the numbers of each function."""
    ptx, cubin = work / "device.ptx", work / "device.cubin"
    includes = [f"-I{folder}" for folder in options.include]
    if "clang" in pathlib.Path(options.compiler).name:
        run([options.compiler, "-x", "cuda", "-std=c++20", "-O3", *WARNINGS, "-Wno-unknown-cuda-version",
             f"--cuda-gpu-arch={options.target}", "--cuda-device-only", "-nogpulib",
             f"--cuda-path={pathlib.Path(options.assembler).parent.parent}", *includes, "-S", "-o", ptx, options.source])
    else:
        run([options.compiler, "-std=c++20", f"-arch={options.target}", "-Werror", "all-warnings", *includes, "-ptx", "-o",
             ptx, options.source])
    return ptx.read_text(), assemble(options.assembler, ptx, cubin, options.target)


def compile_hip(options, work):
    """Assembly by clang, without ROCm: the text, and the numbers of each kernel."""
    assembly = work / "device.s"
    run([options.compiler, "-x", "hip", "-std=c++20", "-O3", *WARNINGS, f"--offload-arch={options.target}",
         "--offload-device-only", "-nogpuinc", "-nogpulib", *[f"-I{folder}" for folder in options.include], "-S", "-o",
         assembly, options.source])
    text = assembly.read_text()
    sizes, name = {}, None
    for line in text.splitlines():
        if match := re.match(r"(\w+):", line):
            name = match[1]
            sizes[name] = 0
        elif line.startswith(".Lfunc_end"):
            name = None
        elif name and AMD_INSTRUCTION.match(line):
            sizes[name] += 1
    numbers = {}
    for entry in re.split(r"\n  - ", text[text.index("amdhsa.kernels:"):])[1:]:
        fields = dict(re.findall(r"\n\s+\.(name|private_segment_fixed_size|[sv]gpr_spill_count):\s+(\S+)", entry))
        if "name" in fields:
            spills = int(fields.get("sgpr_spill_count", 0)) + int(fields.get("vgpr_spill_count", 0))
            numbers[fields["name"]] = (sizes[fields["name"]], int(fields["private_segment_fixed_size"]), spills)
    return text, numbers


def read_table(path):
    """The rows of the table: (source, target, kernel) -> (instructions, local bytes, spills)."""
    rows = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            source, target, kernel, *numbers = line.split("\t")
            rows[source, target, kernel] = tuple(map(int, numbers))
    return rows


def write_table(path, source, target, found):
    """Replaces the rows of one source and target, and keeps the head."""
    head = [line for line in path.read_text().splitlines() if line.startswith("#")]
    rows = {key: value for key, value in read_table(path).items() if key[:2] != (source, target)}
    rows.update({(source, target, kernel): numbers for kernel, numbers in found.items()})
    lines = ["\t".join([*key, *map(str, numbers)]) for key, numbers in sorted(rows.items())]
    path.write_text("\n".join(head + lines) + "\n")


def compare(rows, source, target, found):
    """The sentences that say which kernels leave the table's bounds."""
    wrong = []
    for kernel, (instructions, local, spills) in sorted(found.items()):
        if (source, target, kernel) not in rows:
            wrong.append(f"{kernel} is not in the table")
            continue
        budget, local_allowed, spills_allowed = rows[source, target, kernel]
        if instructions > budget * SLACK:
            wrong.append(f"{kernel} has {instructions} instructions, {budget} are in the table")
        if local > local_allowed:
            wrong.append(f"{kernel} uses {local} bytes of local memory, {local_allowed} are in the table")
        if spills > spills_allowed:
            wrong.append(f"{kernel} spills ({spills}), {spills_allowed} are in the table")
    for key in rows:
        if key[:2] == (source, target) and key[2] not in found:
            wrong.append(f"{key[2]} is in the table and not in the code")
    return wrong


def missing(path, source, target, text):
    """The sentences that say which expected instructions are not there."""
    wrong = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            of_source, targets, instruction = line.split("\t")
            if of_source == source and target in targets.split() and instruction not in text:
                wrong.append(f"there is no {instruction}")
    return wrong


def check(options):
    """Raises Failure where a check fails."""
    work, source = pathlib.Path(options.work), pathlib.Path(options.source).name
    work.mkdir(parents=True, exist_ok=True)
    options.compiler = program(options.compiler, "the device compiler")
    is_cuda = options.target.startswith("sm_")
    if is_cuda:
        beside = str(pathlib.Path(options.compiler).resolve().parent / "ptxas")
        options.assembler = program(options.assembler or beside, "ptxas of CUDA")
    text, numbers = (compile_cuda if is_cuda else compile_hip)(options, work)
    if not numbers:
        raise Failure("there is no kernel in the compiler's output")
    names = short_names(list(numbers))
    found = {names[mangled]: value for mangled, value in numbers.items()}
    if len(found) != len(numbers):
        raise Failure("two kernels have the same short name: SHORTER takes too much away")
    wrong = []
    if is_cuda and "clang" in pathlib.Path(options.compiler).name:
        pass
    elif options.write:
        write_table(pathlib.Path(options.table), source, options.target, found)
    elif options.table:
        wrong += compare(read_table(pathlib.Path(options.table)), source, options.target, found)
        if wrong:
            wrong.append("if that is meant: cmake --build <folder> --target device_budgets, and look at what changed")
    else:
        nothing = {(source, options.target, kernel): (numbers[0], 0, 0) for kernel, numbers in found.items()}
        wrong += compare(nothing, source, options.target, found)
    if options.expected:
        wrong += missing(pathlib.Path(options.expected), source, options.target, text)
    if wrong:
        raise Failure("\n".join(wrong))
    print(f"{source} for {options.target}: {len(found)} kernels, {sum(n[0] for n in found.values())} instructions")


def main():
    """Reads the command line and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("compiler", "target", "source", "work"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("table", "expected", "assembler"):
        parser.add_argument(f"--{name}")
    parser.add_argument("-I", dest="include", action="append", default=[])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    try:
        check(options)
    except Failure as failure:
        sys.exit(f"{pathlib.Path(options.source).name} for {options.target}:\n{failure}")


if __name__ == "__main__":
    main()
