#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each of many small files by itself, in one run, and reports each one that is not as it should be.

  compile_each.py [--refused] [--precompile <header>] <file> ... -- <command> ...

Each file is compiled by the command with the file's name behind it. With --refused that command gets -DLOFT_FAIL too, and
has to fail with a message that matches the file's line '// expect: <regex>'. With --precompile a header is compiled
first, and every file begins with it. Exit code 1 says that a file failed; its name and the compiler's message are
printed.
"""
import pathlib
import re
import subprocess
import sys


def compile_file(command):
    """(True where the compiler accepts, its output)."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode == 0, done.stdout


def expectation(path):
    """The regex that the message of a refused file has to match."""
    found = re.search(r"^// expect: (.+)$", path.read_text(), re.MULTILINE)
    if not found:
        sys.exit(f"{path} has no line '// expect: <regex>'")
    return found[1]


def fault(path, command, refused):
    """What is wrong with a file, or nothing."""
    if not refused:
        accepted, output = compile_file([*command, str(path)])
        return "" if accepted else f"does not compile:\n{output[:6000]}"
    expected = expectation(path)
    accepted, output = compile_file([*command, "-DLOFT_FAIL", str(path)])
    if accepted:
        return "succeeded, but has to fail"
    # Compilers break lines and indent; a sentence has to be found all the same.
    if not re.search(expected, re.sub(r"\s+", " ", output)):
        return f"failed, but for another reason than '{expected}':\n{output[:6000]}"
    return ""


def main():
    """Reads the command line and reports."""
    arguments = sys.argv[1:]
    if "--" not in arguments:
        sys.exit(__doc__)
    split = arguments.index("--")
    names, command = arguments[:split], arguments[split + 1:]
    refused = "--refused" in names
    names = [name for name in names if name != "--refused"]
    if "--precompile" in names:
        at = names.index("--precompile")
        header = names[at + 1]
        del names[at:at + 2]
        without_check = [word for word in command if word != "-fsyntax-only"]
        accepted, output = compile_file([*without_check, "-x", "c++-header", header, "-o", f"{header}.gch"])
        if not accepted:
            sys.exit(f"{header} does not compile:\n{output[:6000]}")
        command += ["-Winvalid-pch", "-include", header]
    if not names:
        sys.exit("no file was named")
    faults = 0
    for path in map(pathlib.Path, names):
        found = fault(path, command, refused)
        if found:
            faults += 1
            print(f"{path}: {found}")
    print(f"{len(names)} files, {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
