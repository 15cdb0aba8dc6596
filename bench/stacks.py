#!/usr/bin/env python3
"""Our stacks on a CPU beside PyTorch's best form: interleaved runs, ratios with intervals, and the share of the limit.

    bench/stacks.py [--size quickstart] [--rounds 6] [--dtype fp32]

PyTorch's form is transformers in eager mode with SDPA, fused AdamW and jemalloc. --compile adds torch.compile over
model and loss and torch.compile by blocks, both with an attention without a mask (experiments/peers/forms.py). The
limit is the time that the FLOPs of our step, attention among them, take at the measured peak of matrix products. Ten
minutes: `--size quickstart --rounds 6` and `--size versus_pytorch --rounds 4`.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile

from compare import Program, speedup_text
from step_parts import ROOT, SIZES, TWIN, jemalloc

BASE = ["fused_adamw", "flash_attention", "cpu_allocator", "fused_kernels", "fused_linear_cross_entropy"]
STACKS = {"ours": BASE,
          "ours + onednn_matmul": [*BASE, "onednn_matmul"],
          "ours + onednn_matmul + fused_projections": [*BASE, "onednn_matmul", "fused_projections"]}


def limit_of(program, context, dtype):
    """Seconds that the FLOPs of a step take at the measured peak of products."""
    result = program.results[0]
    return result["flops_per_token"]["hfu"] * result["steps"][-1]["tokens"] / context["peak"]["dtype_flops"][dtype]


def peers_and_ours(programs):
    return ([program for program in programs if program.stack == "peer"],
            [program for program in programs if program.stack != "peer"])


def table(programs, context, dtype):
    peak = context["peak"]["dtype_flops"][dtype]
    lines = [f"{context['cpu']['name']}, {context['threads']} threads; measured peak of products in {dtype} "
             f"{peak / 1e9:.0f} GFLOP/s; {len(programs[0].results)} interleaved rounds.", "",
             "| peer | ours | ratio | step, ms | limit, ms | share of the limit |", "|---|---|---:|---:|---:|---:|"]
    peers, ours = peers_and_ours(programs)
    for program in ours:
        step, limit = statistics.median(program.seconds()), limit_of(program, context, dtype)
        for peer in peers:
            lines.append(f"| {peer.name} | {program.name} | {speedup_text(program, peer)} | {step * 1e3:.1f} | "
                         f"{limit * 1e3:.1f} | {100 * limit / step:.0f} % |")
    lines += ["", "| stack | over | ratio |", "|---|---|---:|"]
    lines += [f"| {one.name} | {other.name} | {speedup_text(one, other)} |" for other, one in zip(ours, ours[1:])]
    losses = [program.losses()[-1] for program in programs]
    lines += ["", f"The last losses of all programs agree to {max(losses) / min(losses) - 1:.1e}."]
    return "\n".join(lines)


def parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="quickstart", choices=SIZES)
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"], help="bf16: autocast")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=6, help="timed steps of a run, after two of warm-up")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--compile", action="store_true", help="also torch.compile in two forms, with caches filled before the rounds"
    )
    parser.add_argument("--stack", action="append", default=[], metavar="NAME=PLUGIN,..", help="one more stack of ours")
    parser.add_argument("--only", default="", help="our stacks whose name this regular expression matches")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--python", default=ROOT / ".venv/bin/python")
    return parser


def measured(arguments):
    """The programs with their results, and the machine."""
    torch_dir = subprocess.run([arguments.python, "-c", "import torch; print(torch.__path__[0])"], check=True,
                               capture_output=True, text=True).stdout.strip()
    model, train = SIZES[arguments.size]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        worker = arguments.build / "bin/optrush-worker"
        (folder / "plain.json").write_text(json.dumps({
            "model": model, "train": {**train, "steps": arguments.steps, "warmup": 2},
            "data": {"kind": "text", "path": os.path.join(torch_dir, "include"), "extensions": [".h"]},
            "device": "cpu", "threads": arguments.threads}))
        subprocess.run([worker, "export", "--spec", folder / "plain.json", "--out", folder / "start"], check=True)
        subprocess.run([worker, "doctor", "--quick", "--device", "cpu", "--threads", str(arguments.threads), "--json",
                        folder / "context.json"], check=True, stdout=subprocess.DEVNULL)
        context = json.loads((folder / "context.json").read_text())
        spec = json.loads((folder / "start/spec.json").read_text())
        autocast = arguments.dtype == "bf16"

        def twin(*extra):
            techniques = ["sdpa", "fused"] + (["bf16"] if autocast else [])
            return lambda out: (
                [
                    arguments.python,
                    TWIN,
                    "--start",
                    folder / "start",
                    "--out",
                    out / "result.json",
                    "--with",
                    *techniques,
                    *extra,
                ],
                out / "result.json",
            )

        programs = [Program("PyTorch eager, jemalloc", "peer", twin(), jemalloc())]
        if arguments.compile:
            for name, form in (("torch.compile", "whole"), ("torch.compile by blocks", "blocks")):
                command = twin("--compile", "default", "--form", form)
                compiled = Program(f"{name}, jemalloc", "peer", command, jemalloc())
                (folder / form).mkdir()
                compiled.run(folder / form)
                compiled.results.clear()
                programs.append(compiled)
        more = dict(stack.split("=", 1) for stack in arguments.stack)
        stacks = {**STACKS, **{name: plugins.split(",") for name, plugins in more.items()}}
        for name, plugins in stacks.items():
            if not re.fullmatch(arguments.only or ".*", name):
                continue
            file = folder / f"{name.replace(' ', '-')}.json"
            plugins = (["mixed_precision"] if autocast else []) + plugins
            file.write_text(json.dumps({**spec, "plugins": [{"name": plugin, "options": {}} for plugin in plugins]}))
            programs.append(Program(name, "ours", lambda out, file=file: (
                [worker, "run", "--spec", file, "--out", out], out / "result.json")))
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` sends SIGTERM
        try:
            for number in range(arguments.rounds):
                for program in programs:
                    seconds = program.run(folder)["step_seconds"]
                    print(f"round {number + 1}: {program.name}: {seconds * 1e3:.1f} ms", file=sys.stderr)
        except KeyboardInterrupt:  # keeps complete rounds
            complete = min(len(program.results) for program in programs)
            if complete < 2:
                raise
            for program in programs:
                del program.results[complete:]
    return programs, context


def main():
    arguments = parser().parse_args()
    print(table(*measured(arguments), arguments.dtype))


if __name__ == "__main__":
    main()
