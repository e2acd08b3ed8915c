#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a user of PyTorch would pick for the same work: torch.compile and a Triton kernel, timed as bench/gpu_bench.cu times.

usage: python3 bench/gpu_peers.py [--out peers.json]     (needs torch with a GPU, and triton)

MXFP4 and MXFP8 rows of bfloat16 with the OCP floor rule, nearest even. Codes and scales of the three are compared.
"""
import argparse
import json
import statistics

import torch
import triton
import triton.language as tl

LAUNCHES, SAMPLES = 10, 31


def scales_of(x, emax):
    """[rows, cols / 32, 32] float -> E8M0 codes, and 2^-exponent, by the bits of the maximum."""
    bits = x.abs().amax(-1).view(torch.int32)
    exponent = (bits >> 23) - 127 - emax
    return (exponent + 127).clamp(0, 254).to(torch.uint8), torch.exp2(-exponent.float())


def mxfp4(x):
    rows, cols = x.shape
    v = x.float().view(rows, cols // 32, 32)
    scale, inverse = scales_of(v, 2)
    v = v * inverse[..., None]
    magnitude = v.abs().clamp(max=6.0)
    # 2^22 * the gap of E2M1 at v: the sum is rounded to that grid.
    binade = (magnitude.view(torch.int32) & 0x7F800000).clamp(min=0x3F800000)
    total = magnitude + (binade + (22 << 23)).view(torch.float32)
    code = (total.view(torch.int32) & 7) + ((binade - 0x3F800000) >> 22)
    code = (code | (v.view(torch.int32) >> 28 & 8)).to(torch.uint8).view(rows, cols // 2, 2)
    return code[..., 0] | code[..., 1] << 4, scale


def mxfp8(x):
    rows, cols = x.shape
    v = x.float().view(rows, cols // 32, 32)
    scale, inverse = scales_of(v, 8)
    v = (v * inverse[..., None]).clamp(-448.0, 448.0)
    return v.to(torch.float8_e4m3fn).view(torch.uint8).view(rows, cols), scale


@triton.jit
def mxfp4_kernel(x_ptr, codes_ptr, scales_ptr, BLOCKS: tl.constexpr):
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    place = block[:, None] * 32 + tl.arange(0, 32)[None, :]
    x = tl.load(x_ptr + place).to(tl.float32)
    exponent = (tl.max(tl.abs(x), 1).to(tl.int32, bitcast=True) >> 23) - 129
    inverse = ((127 - exponent) << 23).to(tl.float32, bitcast=True)
    v = x * inverse[:, None]
    magnitude = tl.minimum(tl.abs(v), 6.0)
    binade = tl.maximum(magnitude.to(tl.int32, bitcast=True) & 0x7F800000, 0x3F800000)
    total = magnitude + (binade + (22 << 23)).to(tl.float32, bitcast=True)
    code = (total.to(tl.int32, bitcast=True) & 7) + ((binade - 0x3F800000) >> 22)
    code = code | (v.to(tl.int32, bitcast=True) >> 28 & 8)
    low, high = tl.split(tl.reshape(code, (BLOCKS, 16, 2)))
    tl.store(codes_ptr + block[:, None] * 16 + tl.arange(0, 16)[None, :], (low | high << 4).to(tl.uint8))
    tl.store(scales_ptr + block, tl.minimum(tl.maximum(exponent + 127, 0), 254).to(tl.uint8))


def triton_mxfp4(x, blocks, warps):
    codes = torch.empty((x.shape[0], x.shape[1] // 2), dtype=torch.uint8, device=x.device)
    scales = torch.empty((x.shape[0], x.shape[1] // 32), dtype=torch.uint8, device=x.device)
    mxfp4_kernel[(x.numel() // 32 // blocks,)](x, codes, scales, BLOCKS=blocks, num_warps=warps)
    return codes, scales


def microseconds(function):
    """The median of `SAMPLES` samples of `LAUNCHES` launches, replayed as a graph so that Python costs nothing."""
    for _ in range(3):
        function()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            function()
    times = []
    for _ in range(SAMPLES):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / LAUNCHES)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="also write the results to this file, as JSON")
    arguments = parser.parse_args()
    results = []
    for rows, cols in [(16384, 8192), (4096, 4096), (1024, 8192)]:
        torch.manual_seed(1)
        spread = torch.randint(-8, 9, (rows, cols // 32, 1), device="cuda").float()
        x = (torch.randn(rows, cols // 32, 32, device="cuda") * torch.exp2(spread)).view(rows, cols).bfloat16()
        copy = torch.empty_like(x)
        reference = microseconds(lambda: copy.copy_(x))
        cases = {"torch.compile MXFP4 row": (torch.compile(mxfp4), 17 / 32), "torch.compile MXFP8 row": (torch.compile(mxfp8), 33 / 32)}
        best = min(((b, w) for b in (8, 16, 32, 64) for w in (1, 2, 4, 8)), key=lambda c: microseconds(lambda: triton_mxfp4(x, *c)))
        cases["Triton MXFP4 row"] = (lambda y: triton_mxfp4(y, *best), 17 / 32)
        for name, (function, written) in cases.items():
            if "MXFP4" in name:
                for got, want in zip(function(x), mxfp4(x)):
                    assert torch.equal(got, want), f"{name} differs from eager PyTorch"
            time = microseconds(lambda: function(x))
            bytes_moved = x.numel() * (2 + written)
            ratio = bytes_moved / time / (x.numel() * 4 / reference)
            results.append({"name": f"{name}/{rows}x{cols}", "microseconds": time, "ratio": ratio})
            print(f"{name}/{rows}x{cols}: {time:.1f} us, {ratio:.2f} of a copy")
    if arguments.out:
        with open(arguments.out, "w") as file:
            json.dump({"torch": torch.__version__, "triton": triton.__version__, "benchmarks": results}, file, indent=2)


if __name__ == "__main__":
    main()
