#!/usr/bin/env python3
"""Holds the host against programs that do the same work without it, side by side.

    bench/compare.py [--rounds 5] [--write]

Rounds are interleaved (every program once, then again), so that a drift of the machine meets all of them. The sample is
the run: its median step. A ratio's interval is a paired t interval (95 %) on log ratios over the rounds. Every program
starts from the same parameters and sees the same tokens; where two loss curves differ by more than the arithmetic
explains, the comparison is refused. --write puts the tables into docs/internals/overhead.md and every sample beside
it.
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TWIN = ROOT / "experiments/peers/transformers_twin.py"
PAGE = ROOT / "docs/internals/overhead.md"
BEGIN, END = "<!-- bench/compare.py: begin -->", "<!-- bench/compare.py: end -->"

# 97.5 % quantiles of Student's t by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228,
           11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110, 18: 2.101, 19: 2.093}

# Each stack adds one plugin to the one before, as in a ladder.
STACKS = [("naive", []),
          ("bf16 autocast", ["mixed_precision"]),
          ("+ fused AdamW", ["mixed_precision", "fused_adamw"]),
          ("+ SDPA", ["mixed_precision", "fused_adamw", "flash_attention"])]
# Largest relative difference of two losses of one step: rounding by another order of fp32 sums, and bf16.
TOLERANCE = {"naive": 1e-4, "bf16": 2e-2}
# The host's mallopt settings, for other programs.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**62), "MALLOC_TOP_PAD_": str(64 << 20)}


def problem(arguments, torch_dir):
    return {"model": {"dim": arguments.dim, "n_layers": arguments.layers, "n_heads": 8, "n_kv_heads": 4,
                      "ffn_dim": arguments.dim * 11 // 4, "vocab_size": 256},
            "data": {"kind": "text", "path": os.path.join(torch_dir, "include"), "extensions": [".h"]},
            "train": {"micro_batch": arguments.micro_batch, "seq_len": arguments.seq_len, "steps": arguments.steps,
                      "warmup": 3},
            "device": "cpu", "threads": arguments.threads}


class Program:
    """A program to run. Its command writes a RunResult to `out`."""

    def __init__(self, name, stack, command, environment=None):
        self.name, self.stack, self.command, self.environment = name, stack, command, environment or {}
        self.results = []

    def run(self, folder):
        out = folder / f"{self.name.replace(' ', '-')}-{len(self.results)}"
        out.mkdir()
        command, result = self.command(out)
        done = subprocess.run([str(word) for word in command], env={**os.environ, **self.environment},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0 or not result.exists():
            sys.exit(f"{self.name} failed:\n{done.stdout[-3000:]}")
        measured = json.loads(result.read_text())
        if measured["status"] != "ok":
            sys.exit(f"{self.name}: {measured['status']}: {measured['reason']}")
        self.results.append(measured)
        return measured

    def seconds(self):
        return [result["step_seconds"] for result in self.results]

    def losses(self):
        return [step["loss"] for step in self.results[0]["steps"]]


def programs(folder, build, python):
    start = folder / "start"
    complete = json.loads((start / "spec.json").read_text())
    worker, loop = build / "bin/optrush-worker", build / "bin/hand_written_loop"
    chosen = []

    def add_loop(name, *flags):
        chosen.append(Program(name, "naive", lambda out: ([loop, start, out / "result.json", *flags],
                                                          out / "result.json")))

    add_loop("hand-written loop, host's malloc settings", "--keep-memory")
    add_loop("hand-written loop")
    for index, (stack, plugins) in enumerate(STACKS):
        spec = folder / f"spec-{index}.json"
        spec.write_text(json.dumps({**complete, "plugins": [{"name": name, "options": {}} for name in plugins]}))

        def host(out, spec=spec):
            return [worker, "run", "--spec", spec, "--out", out], out / "result.json"

        def twin(out, spec=spec):
            return [python, TWIN, "--start", start, "--spec", spec, "--out", out / "result.json"], out / "result.json"

        chosen.append(Program(f"optrush, {stack}", stack, host))
        chosen.append(Program(f"Python, {stack}", stack, twin))
        chosen.append(Program(f"Python, {stack}, host's malloc settings", stack, twin, KEEP_MEMORY))
    return chosen


def student_t(degrees):
    """The 97.5 % quantile: from the table, above it the expansion of Cornish and Fisher."""
    if degrees in STUDENT:
        return STUDENT[degrees]
    z = statistics.NormalDist().inv_cdf(0.975)
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )


def half_interval(values):
    """Half of the t interval of a mean over rounds. Fewer than three rounds have none."""
    if len(values) < 3:
        return None
    return student_t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def mean_ratio(logs):
    """The geometric mean of a ratio from its logarithms by round, and its interval if there is one."""
    mean, half = statistics.fmean(logs), half_interval(logs)
    if half is None:
        return math.exp(mean), None
    return math.exp(mean), (math.exp(mean - half), math.exp(mean + half))


def ratio_text(logs):
    mean, interval = mean_ratio(logs)
    if interval is None:
        return f"{mean:.3f}x ({len(logs)} rounds, no claim)"
    unsure = ", may be no difference" if interval[0] <= 1 <= interval[1] else ""
    return f"{mean:.3f}x [{interval[0]:.3f}, {interval[1]:.3f}]{unsure}"


def faster(ours, theirs):
    """Logarithms of the speed of ours divided by theirs, from the seconds of each round."""
    return [math.log(other / own) for own, other in zip(ours, theirs, strict=True)]


def speedup_text(program, other):
    return ratio_text(faster(program.seconds(), other.seconds()))


def same_work(a, b):
    """The largest relative difference of the two loss curves. Ends the comparison if rounding does not explain it."""
    worst = max(abs(x - y) / abs(y) for x, y in zip(a.losses(), b.losses(), strict=True))
    allowed = TOLERANCE["naive" if a.stack == "naive" else "bf16"]
    if worst > allowed:
        sys.exit(f"'{a.name}' and '{b.name}' do not do the same work: their losses differ by {worst:.1e} "
                 f"(allowed {allowed:.0e})")
    return worst


def comparisons(chosen):
    by_name = {program.name: program for program in chosen}
    for program in chosen:
        if program.name.startswith("optrush, "):
            others = [other for other in chosen if other.stack == program.stack and not
                      other.name.startswith("optrush, ")]
            yield from ((program, other) for other in others)
    rungs = [by_name[name] for name in (f"optrush, {stack}" for stack, _ in STACKS) if name in by_name]
    yield from zip(rungs[1:], rungs)


def tables(chosen, context, spec):
    model, train, cpu = spec["model"], spec["train"], context["cpu"]
    peaks = ", ".join(f"{dtype} {flops / 1e9:.0f}" for dtype, flops in context["peak"]["dtype_flops"].items())
    lines = [f"{cpu['name']}, {context['threads']} threads, {', '.join(cpu['isa'])}; torch {context['torch']}, "
             f"{context['compiler']}; measured matmul peak in GFLOP/s: {peaks}.",
             "",
             f"Llama, dim {model['dim']}, {model['n_layers']} layers, sequence {train['seq_len']}, micro-batch "
             f"{train['micro_batch']}, {train['steps']} timed steps after {train['warmup']}, "
             f"{len(chosen[0].results)} interleaved rounds."]
    lines += [f"Warning: {warning}." for warning in context["warnings"]]
    lines += ["", "| program | median step | tokens/s |", "|---|---:|---:|"]
    for program in chosen:
        seconds = statistics.median(program.seconds())
        tokens = program.results[0]["steps"][-1]["tokens"]
        lines.append(f"| {program.name} | {seconds * 1e3:.1f} ms | {tokens / seconds:,.0f} |")
    lines += ["", "| program | against | speedup | losses differ by |", "|---|---|---|---:|"]
    for program, other in comparisons(chosen):
        difference = f"{same_work(program, other):.1e}" if program.stack == other.stack else "—"
        lines.append(f"| {program.name} | {other.name} | {speedup_text(program, other)} | {difference} |")
    return "\n".join(lines) + "\n"


def write_page(text, chosen, context, spec):
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + text + END + rest.partition(END)[2])
    samples = {"spec": spec, "context": context,
               "programs": [{"name": program.name, "results": program.results} for program in chosen]}
    PAGE.with_suffix(".json").write_text(json.dumps(samples, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="timed steps")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--seq-len", type=int, default=512)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default="", help="programs whose name this regular expression finds")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--python", default=ROOT / ".venv/bin/python")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()

    subprocess.run(["ninja", "-C", arguments.build, "all", "hand_written_loop"], check=True, stdout=subprocess.DEVNULL)
    torch_dir = subprocess.run([arguments.python, "-c", "import torch; print(torch.__path__[0])"], check=True,
                               capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        worker = arguments.build / "bin/optrush-worker"
        (folder / "spec.json").write_text(json.dumps(problem(arguments, torch_dir)))
        subprocess.run([worker, "export", "--spec", folder / "spec.json", "--out", folder / "start"], check=True)
        subprocess.run([worker, "doctor", "--quick", "--device", "cpu", "--threads", str(arguments.threads), "--json",
                        folder / "context.json"], check=True, stdout=subprocess.DEVNULL)
        context = json.loads((folder / "context.json").read_text())
        spec = json.loads((folder / "start/spec.json").read_text())
        chosen = [program for program in programs(folder, arguments.build, arguments.python)
                  if re.search(arguments.only, program.name)]
        for round_number in range(arguments.rounds):
            for program in chosen:
                seconds = program.run(folder)["step_seconds"]
                print(f"round {round_number + 1}: {program.name}: {seconds * 1e3:.1f} ms", file=sys.stderr)
        text = tables(chosen, context, spec)
    print(text)
    if arguments.write:
        write_page(text, chosen, context, spec)


if __name__ == "__main__":
    main()
