#!/usr/bin/env python3
"""Ours beside its peers and beside the limits of this machine, in one table. Ten minutes on a quiet machine.

    bench/limits.py [--only REGEX] [--rounds 5] [--write]

Each line of the table has the command that measures it alone, with more detail. The limit of products and attention is
the measured peak of matrix products, that of elementwise kernels the measured bandwidth, and that of the host the
hand-written loop itself. --write puts the table into docs/benchmarks.md, in place of the one of the same processor.
"""
import argparse
import dataclasses
import json
import math
import os
import re
import statistics
import subprocess
import sys

import host_overhead
import stacks
from compare import ROOT, faster, ratio_text

PAGE = ROOT / "docs/benchmarks.md"
STACK = "ours + onednn_matmul + fused_projections"  # the fastest in fp32
STACK_OF = {"fp32": STACK, "bf16": "ours"}
BLOCK = [(256, 256), (128, 256), (688, 256), (256, 688)]  # outputs and inputs of a quickstart block's linears
TOKENS = 2048
ATTENTION = {"sequences": 4, "heads": 8, "positions": 512, "width": 32}
TARGETS = ["optrush-worker", "optrush-plugins", "hand_written_loop", "bench_causal_attention", "bench_onednn_matmul",
           "bench_fused_kernels"]


@dataclasses.dataclass
class Line:
    peer: str
    ours: str
    ratio: str
    limit: str
    share: float
    command: str


def in_cell(text):
    """Escapes the bars of a text, which would end the cell of a Markdown table."""
    return text.replace("|", "\\|")


def parsed(module, command):
    """The parsed arguments of a command of bench/, which the line of the table names."""
    return module.parser().parse_args(command.split()[1:])


def steps(dtype):
    def lines(rounds, peak):
        command = (f"bench/stacks.py --size quickstart --dtype {dtype} --compile --rounds {rounds}"
                   f" --only {STACK_OF[dtype].replace(' ', '.')}")
        programs, context = stacks.measured(parsed(stacks, command))
        peers, (ours,) = stacks.peers_and_ours(programs)
        limit = stacks.limit_of(ours, context, dtype)
        for peer in peers:
            yield Line(f"{peer.name}, {dtype} step", ours.name, stacks.speedup_text(ours, peer),
                       f"{limit * 1e3:.0f} ms", limit / statistics.median(ours.seconds()), command)
    return lines


def host(rounds, peak):
    command = f"bench/host_overhead.py --rounds {max(rounds, 3)}"
    logs = [
        -each for each in host_overhead.host_over_loop(host_overhead.measured(parsed(host_overhead, command)), "turn")
    ]
    yield Line("hand-written loop of LibTorch", "the host's plain step", ratio_text(logs), "the loop",
               math.exp(statistics.fmean(logs)), command)


def benchmark(name, rounds, filter_):
    """The times in seconds of each round of a Google Benchmark program, by the name of the benchmark."""
    command = [f"build/bench/{name}", f"--benchmark_filter={filter_}", f"--benchmark_repetitions={rounds}",
               "--benchmark_enable_random_interleaving=true"]
    done = subprocess.run([*command, "--benchmark_format=json"], cwd=ROOT, check=True, capture_output=True, text=True,
                          env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    times = {}
    for run in json.loads(done.stdout)["benchmarks"]:
        if run["run_type"] == "iteration":
            times.setdefault(run["run_name"], []).append(run["real_time"] * unit[run["time_unit"]])
    return times, " ".join(command[:2])


def sum_of(times, starts):
    """The sum over all benchmarks with names that begin with `starts`, in each round."""
    return [sum(each) for each in zip(*(values for name, values in times.items() if name.startswith(starts)))]


def attention(rounds, peak):
    positions, width = ATTENTION["positions"], ATTENTION["width"]
    # Two products forward and five backward, over the unmasked half of the scores.
    flops = 7 * ATTENTION["sequences"] * ATTENTION["heads"] * positions**2 * width
    for dtype, bits in (("fp32", 32), ("bf16", 16)):
        times, command = benchmark("causal_attention", rounds, f"/{positions}/{width}/{bits}/")
        ours, limit = sum_of(times, "own"), flops / peak[dtype]
        yield Line(f"LibTorch's attention, {dtype}", "`flash_attention`",
                   ratio_text(faster(ours, sum_of(times, "libtorch"))), f"{limit * 1e3:.1f} ms",
                   limit / statistics.median(ours), command)


def products(rounds, peak):
    shapes = [f"{m}/{n}/{k}/{form}" for out, inner in BLOCK
              for m, n, k, form in ((TOKENS, out, inner, 0), (TOKENS, inner, out, 1), (out, inner, TOKENS, 2))]
    times, command = benchmark("onednn_matmul", rounds, f"/({'|'.join(dict.fromkeys(shapes))})/")
    flops = sum(2 * TOKENS * out * inner * 3 for out, inner in dict.fromkeys(BLOCK))
    ours, limit = sum_of(times, "onednn"), flops / peak["fp32"]
    yield Line("LibTorch's products (MKL), fp32", "`onednn_matmul`",
               ratio_text(faster(ours, sum_of(times, "libtorch"))), f"{limit * 1e3:.1f} ms",
               limit / statistics.median(ours), command)


def elementwise(rounds, peak):
    command = "build/bench/fused_kernels"
    row = re.compile(r"(norm|add_norm|position|swiglu) +Float +\w+ +([\d.]+) ms +([\d.]+) ms .* ([\d.]+) %")
    plain, fused, limits = [], [], []
    for _ in range(rounds):
        printed = subprocess.run([command], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        rows = [
            [float(value) for value in found.groups()[1:]] for found in map(row.match, printed.splitlines()) if found
        ]
        assert len(rows) == 8, printed
        plain.append(sum(each[0] for each in rows))
        fused.append(sum(each[1] for each in rows))
        limits.append(sum(each[1] * each[2] / 100 for each in rows))
    yield Line("LibTorch's operators, fp32: norm, residual + norm, rotary, SwiGLU", "`fused_kernels`",
               ratio_text(faster(fused, plain)), f"{statistics.median(limits):.0f} ms",
               statistics.median(limit / time for limit, time in zip(limits, fused)), command)


LINES = {"steps in fp32": steps("fp32"), "steps in bf16": steps("bf16"), "host": host, "attention": attention,
         "products": products, "elementwise": elementwise}


def table(lines, context):
    peaks = ", ".join(f"{flops / 1e9:.0f} GFLOP/s in {dtype}" for dtype, flops in context["peak"]["dtype_flops"].items()
                      if dtype in STACK_OF)
    text = [f"**{context['cpu']['name']}, {context['threads']} threads.** Measured: products with {peaks}; "
            f"{context['bandwidth_bytes_per_second'] / 1e9:.1f} GB/s.", "",
            "| peer | ours | ratio | limit | share of the limit | command |", "|---|---|---:|---:|---:|---|"]
    text += [
        f"| {line.peer} | {line.ours} | {line.ratio} | {line.limit} | {100 * line.share:.0f} % | "
        f"`{in_cell(line.command)}` |"
        for line in lines
    ]
    return "\n".join(text) + "\n"


def write_page(text, processor):
    begin, end = f"<!-- bench/limits.py: {processor}: begin -->", f"<!-- bench/limits.py: {processor}: end -->"
    page = PAGE.read_text()
    if begin not in page:  # a processor without a table: appended after the others
        mark = "<!-- bench/limits.py: more -->"
        assert mark in page, mark
        page = page.replace(mark, f"{begin}\n{end}\n\n{mark}")
    before, _, rest = page.partition(begin)
    PAGE.write_text(before + begin + "\n" + text + end + rest.partition(end)[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"lines that this regular expression finds: {', '.join(LINES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    subprocess.run(["ninja", "-C", "build", *TARGETS], check=True, stdout=subprocess.DEVNULL)
    context_file = ROOT / "build/limits_context.json"
    subprocess.run(
        ["build/bin/optrush-worker", "doctor", "--quick", "--device", "cpu", "--json", context_file],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    context = json.loads(context_file.read_text())
    lines = []
    for name, measure in LINES.items():
        if not re.search(arguments.only, name):
            continue
        for line in measure(arguments.rounds, context["peak"]["dtype_flops"]):
            print(f"{line.peer}: {line.ratio}", file=sys.stderr)
            lines.append(line)
    text = table(lines, context)
    print(text)
    if arguments.write:
        if arguments.only:
            sys.exit("--write needs all lines, so no --only")
        write_page(text, context["cpu"]["name"])


if __name__ == "__main__":
    main()
