#!/usr/bin/env python3
"""What the host adds to a step: its plain step beside a hand-written loop of LibTorch, in turns of two steps.

    bench/host_overhead.py [--rounds 6] [--turns 16] [--size quickstart] [--functions 12] [--tracked] [--alone]

Both programs start from the same parameters, see the same tokens and have the same malloc settings. Two processes are
alive in each round, and one of them computes while the other sleeps, as runs of an interleaved experiment do. Each pair
of turns gives three ratios: of the second step's time by each program's clock, of the whole turn's time, and of the CPU
time that the process takes in the turn. The last two contain what the host does between its steps. The first program of
a pair alternates. A round has the mean of its logarithms; each starts new processes, because equal processes differ in
speed. The interval is a t interval (95 %) over rounds.

The second table has the differences in milliseconds per step. `--size thin` has as many layers as quickstart, but they
are small. There the difference is the cost of the host's code, because this cost does not depend on the width.

With `--alone` a round runs one program to its end and then the other, as a user would. Caches hold no data of the other
program then. The sample is the median step of a run, and the interval needs more rounds.
"""
import argparse
import collections
import contextlib
import json
import math
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from compare import ROOT, half_interval, ratio_text
from step_parts import SIZES

STEPS = 2  # steps of a turn: the first refills caches after the other program
KINDS = {"step": "the second step of a turn", "turn": "a turn of two steps", "cpu": "CPU time of a turn"}
ALONE = {"step": "the median step of a run"}


SAMPLES = "perf.data"


class Taker:
    """A process that takes a turn, and then sleeps until its next one."""

    def __init__(self, command, result, folder, sampled):
        self.result = result
        if sampled:
            command = ["perf", "record", "-F", "997", "-e", "cpu-clock", "-o", folder / SAMPLES, *command]
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "socket"))
            listener.listen()
            listener.settimeout(120)
            self.log = (folder / "log.txt").open("w")
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdout=self.log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OPTRUSH_TURNS": str(folder / "socket"), "OMP_WAIT_POLICY": "passive"},
            )
            self.connection = listener.accept()[0]
        self.lines = self.connection.makefile()
        self.hear()  # the child is ready after its warm-up
        self.pid = self.process.pid
        if sampled:
            self.pid = int(pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0])

    def hear(self):
        line = self.lines.readline()
        if not line:
            sys.exit(f"{self.process.args[0]} has ended:\n{pathlib.Path(self.log.name).read_text()[-3000:]}")
        return json.loads(line)

    def cpu_seconds(self):
        """CPU seconds of all its threads."""
        seconds = 0.0
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has just ended
                seconds += 1e-9 * int((task / "schedstat").read_text().split()[0])
        return seconds

    def send(self, message):
        self.connection.sendall((json.dumps(message) + "\n").encode())

    def turn(self):
        cpu, begin = self.cpu_seconds(), time.perf_counter()
        self.send({"type": "go", "steps": STEPS})
        step = self.hear()["seconds"]
        return {"step": step, "turn": time.perf_counter() - begin, "cpu": self.cpu_seconds() - cpu}

    def end(self):
        self.send({"type": "end"})
        code = self.process.wait(120)
        self.log.close()
        result = json.loads(self.result.read_text()) if self.result.exists() else {"status": f"exit code {code}"}
        if result["status"] != "ok":
            sys.exit(f"{self.process.args[0]}: {result['status']}\n{pathlib.Path(self.log.name).read_text()[-3000:]}")
        return [step["loss"] for step in result["steps"]]


def round_of(commands, folder, turns, sampled):
    """The turns of the host and of the loop, in pairs."""
    takers = []
    for name, command in commands.items():
        (folder / name).mkdir(parents=True)
        takers.append(Taker(*command(folder / name), folder / name, sampled))
    pairs = []
    for number in range(turns):
        order = takers if number % 2 == 0 else takers[::-1]
        made = {id(taker): taker.turn() for taker in order}
        pairs.append([made[id(taker)] for taker in takers])
    check_losses(*(taker.end() for taker in takers))
    return pairs


def round_alone(commands, folder, host_first):
    """The programs one after the other: a pair of their median steps."""
    results = {}
    for name in sorted(commands, reverse=not host_first):  # "host" is before "loop"
        (folder / name).mkdir(parents=True)
        command, result = commands[name](folder / name)
        subprocess.run([str(word) for word in command], check=True, capture_output=True,
                       env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        results[name] = json.loads(result.read_text())
    check_losses(*([step["loss"] for step in results[name]["steps"]] for name in commands))
    return [[{"step": results[name]["step_seconds"]} for name in commands]]


def check_losses(ours, theirs):
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
    if worst > 1e-4:
        sys.exit(f"the two programs do not do the same work: their losses differ by {worst:.1e}")


def name_of(symbol):
    """The name of a kernel of LibTorch, without the types of its loop."""
    symbol = re.sub(r"^\[.\] ", "", symbol)
    kernel = re.search(r"\w+_kernel\b", symbol)
    return kernel[0] if kernel and "native" in symbol else re.sub(r"<.*|\(.*", "", symbol) or symbol[:60]


def samples_by_function(file):
    """Samples of all threads of a process, from its start to its end."""
    lines = subprocess.run(
        ["perf", "report", "-i", file, "--stdio", "--no-children", "-g", "none", "-F", "sample,sym", "-w", "10,4000"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    found = collections.Counter()
    for line in lines:
        count, _, symbol = line.strip().partition(" ")
        if count.isdigit():
            found[name_of(symbol.strip())] += int(count)
    return found


def function_table(folder, rounds, count):
    """Shares of the loop's samples."""
    of = {name: sum((samples_by_function(folder / f"round-{number}" / name / SAMPLES) for number in range(rounds)),
                    collections.Counter()) for name in ("host", "loop")}
    host, loop, all_of_loop = of["host"], of["loop"], of["loop"].total()
    lines = [f"| CPU time by function, of the loop's ({all_of_loop} samples) | the host | the loop | difference |",
             "|---|---:|---:|---:|"]

    def line(name, ours, theirs):
        lines.append(f"| {name} | {100 * ours / all_of_loop:.2f} % | {100 * theirs / all_of_loop:.2f} % "
                     f"| {100 * (ours - theirs) / all_of_loop:+.2f} % |")

    line("all", host.total(), all_of_loop)
    for name in sorted(host | loop, key=lambda name: -abs(host[name] - loop[name]))[:count]:
        line(f"`{name}`", host[name], loop[name])
    return "\n".join(lines)


def kinds(arguments):
    return ALONE if arguments.alone else KINDS


def host_over_loop(rounds, kind):
    """The mean of the logarithms of each round's pairs."""
    return [statistics.fmean(math.log(ours[kind] / theirs[kind]) for ours, theirs in pairs) for pairs in rounds]


def added_text(rounds, kind, steps):
    """Milliseconds that the host adds to a step. A round counts with the median of its pairs."""
    added = [statistics.median(1e3 * (ours[kind] - theirs[kind]) / steps for ours, theirs in pairs) for pairs in rounds]
    half = half_interval(added)
    return f"{statistics.fmean(added):.3f} ms" + (f" ± {half:.3f}" if half is not None else " (no claim)")


def measured(arguments):
    with tempfile.TemporaryDirectory() as name:
        rounds = measured_in(pathlib.Path(name), arguments)
        if arguments.functions:
            print(function_table(pathlib.Path(name), len(rounds), arguments.functions) + "\n")
        return rounds


def measured_in(folder, arguments):
    model, train = SIZES[arguments.size]
    worker, loop = arguments.build / "bin/optrush-worker", arguments.build / "bin/hand_written_loop"
    torch_dir = subprocess.run([arguments.python, "-c", "import torch; print(torch.__path__[0])"], check=True,
                               capture_output=True, text=True).stdout.strip()
    spec, start = folder / "spec.json", folder / "start"
    spec.write_text(json.dumps({
        "model": model, "train": {**train, "steps": STEPS * arguments.turns + 1, "warmup": 3},
        "data": {"kind": "text", "path": os.path.join(torch_dir, "include"), "extensions": [".h"]},
        "device": "cpu", "threads": arguments.threads}))
    subprocess.run([worker, "export", "--spec", spec, "--out", start], check=True)
    memory = "--track-memory" if arguments.tracked else "--keep-memory"
    commands = {
        "host": lambda out: ([worker, "run", "--spec", start / "spec.json", "--out", out], out / "result.json"),
        "loop": lambda out: ([loop, start, out / "result.json", memory], out / "result.json")}
    rounds = []
    for number in range(arguments.rounds):
        here = folder / f"round-{number}"
        if arguments.alone:
            rounds.append(round_alone(commands, here, host_first=number % 2 == 0))
        else:
            rounds.append(round_of(commands, here, arguments.turns, bool(arguments.functions)))
        ratios = (f"{kind} {math.exp(host_over_loop(rounds[-1:], kind)[0]):.4f}x" for kind in kinds(arguments))
        print(f"round {number + 1}: {', '.join(ratios)}", file=sys.stderr)
    return rounds


def parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="quickstart", choices=SIZES)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--turns", type=int, default=16, help="of each program in a round")
    parser.add_argument("--functions", type=int, default=0, help="that are listed; 0: nothing is sampled")
    parser.add_argument("--tracked", action="store_true")
    parser.add_argument("--alone", action="store_true", help="one program after the other, instead of in turns")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--python", default=ROOT / ".venv/bin/python")
    return parser


def main():
    arguments = parser().parse_args()
    rounds = measured(arguments)
    milliseconds = [
        1e3 * statistics.median(pair[side]["step"] for pairs in rounds for pair in pairs) for side in (0, 1)
    ]
    pairs = "runs" if arguments.alone else f"{arguments.turns} pairs of turns"
    print(f"{arguments.size}, {arguments.threads} threads: a step of the host {milliseconds[0]:.1f} ms, of the loop "
          f"{milliseconds[1]:.1f} ms; {len(rounds)} rounds of {pairs}.\n")
    print("| the host over the loop | ratio |\n|---|---:|")
    for kind, title in kinds(arguments).items():
        print(f"| {title} | {ratio_text(host_over_loop(rounds, kind))} |")
    print("\n| the host adds to a step | |\n|---|---:|")
    for kind, title in kinds(arguments).items():
        print(f"| {title} | {added_text(rounds, kind, 1 if kind == 'step' else STEPS)} |")


if __name__ == "__main__":
    main()
