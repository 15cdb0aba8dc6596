"""The stages of a GPU's first hour: the steps of each call, their time limits, and the expected results.

A stage is a call of `stage N` that ends within its minutes. Each step is a program with a time limit. If a limit or a
signal has ended a step, the next call continues it if the program can (`optrush run --resume`), and otherwise repeats
it.
"""

from dataclasses import dataclass, field
from pathlib import Path

LARGE = 100e9  # bytes of a card: as flagship.lua


@dataclass(frozen=True)
class Places:
    """The environment of a step: its folders and the card."""
    python: str
    package: Path       # the installed wheel
    reports: Path
    outputs: Path       # of the step alone
    memory_bytes: int   # of the card
    stand_in: bool      # it computes nothing, so results are not compared
    best: tuple = ()    # rungs of the flagship: the fastest without a compiler, with ours, with PyTorch's

    def optrush(self, *words):
        return [self.python, "-m", "optimization_rush", *words]

    def run(self, name, label, *words):
        """An experiment that ships, continued where an earlier call has ended it."""
        return self.optrush(
            "run", f"@{name}", "--out", self.reports, "--label", label, "--resume", "--device", "cuda", *words
        )

    def test_program(self, name):
        return self.package / "bin" / name


@dataclass(frozen=True)
class Step:
    name: str
    title: str
    minutes: float
    command: object          # of Places: the words of a command
    report: str = ""         # the experiment of which it writes the report NAME
    stdout: str = ""         # a file of its outputs that takes what the program prints
    untimed: bool = False    # it measures no time, so it runs beside other untimed steps
    needs: str = ""          # a required program; without it the step is skipped
    cases: bool = False      # it writes check.json, and is done when each case there has run
    expected: dict = field(default_factory=dict)  # a quantity of findings.py: what was expected before anything ran


def not_compared(at):
    """Options for the stand-in, which computes no values to compare compiled code with."""
    return ["--set", "compile.self_check=false"] if at.stand_in else []


def flagship(name, title, minutes, rungs, expected=None, rounds=1, preset="full", more=()):
    """`rungs` of Places; none: all."""
    def command(at):
        only = [word for rung in rungs(at) for word in ("--only", rung)]
        unchecked = not_compared(at) if preset == "full" else []
        return at.run("flagship", name, "--preset", preset, "--rounds", str(rounds), *only, *more, *unchecked)

    return Step(name, title, minutes, command, report="flagship", expected=expected or {})


def test_step(program, minutes):
    def command(at):
        return [at.test_program(program), f"--gtest_output=json:{at.outputs / 'tests.json'}"]

    return Step(program, f"{program}: kernels beside their plain form", minutes, command, untimed=True,
                expected={"tests that failed": "0"})


def memcheck_step(program, minutes):
    def command(at):
        return ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "1", at.test_program(program)]

    return Step(f"memcheck_{program}", f"memcheck over {program}", minutes, command, needs="compute-sanitizer",
                expected={"exit code": "0"})


def check_step(name, title, minutes, *selected, without_values=()):
    """A check. Its cases are kept, so the next call continues it. `without_values` is added on the stand-in."""
    def command(at):
        words = ["--without-values", *without_values] if at.stand_in else []
        return at.optrush(
            "check",
            "--device",
            "cuda",
            "--for",
            f"{60 * minutes - 30:.0f}s",
            "--resume",
            "--folder",
            at.outputs / "state",
            "--json",
            at.outputs / "check.json",
            *selected,
            *words,
        )

    return Step(name, title, minutes, command, cases=True, expected={"cases that failed": "0"})


def larger(at):
    """Larger batches on a large card, otherwise the tuned compilers of both sides."""
    if at.memory_bytes >= LARGE:
        return ["micro-batch 8", "compile", "micro-batch 16"]
    return ["compile", "compile, max-autotune", "torch.compile max-autotune"]


STAGES = {
    1: [
        Step(
            "doctor",
            "What this machine offers",
            1,
            lambda at: at.optrush("doctor", "--json", at.outputs / "doctor.json"),
            expected={"bf16 products, TFLOP/s": "650 or more"},
        ),
        Step(
            "plans",
            "What the plans predict of the flagship",
            0.8,
            lambda at: at.optrush("run", "@flagship", "--dry-run", "--json", "--device", "cuda"),
            stdout="plans.json",
        ),
        flagship("eager", "The flagship without a compiler", 4, lambda at: [], preset="eager"),
        test_step("test_gpu_kernel_gpu", 0.5),
        test_step("test_fused_kernels_gpu", 1),
        test_step("test_flash_attention_gpu", 0.5),
        test_step("test_precision_gpu", 0.5),
        test_step("test_cuda_graphs_gpu", 0.5),
        flagship(
            "trace",
            "The kernels of one step against its plan",
            1.2,
            lambda at: ["bf16 weights"],
            preset="eager",
            more=("--trace",),
        ),
    ],
    2: [
        flagship(
            "compiled",
            "Compilers: ours and PyTorch's",
            6,
            lambda at: [
                "fused projections",
                "compile",
                "compile, CUDA graphs",
                "PyTorch",
                "torch.compile default",
                "torch.compile reduce-overhead",
            ],
            expected={
                "fused projections, over micro-batch 8": "1.01x to 1.02x",
                "compile, over micro-batch 8": "1.00x to 1.06x",
                "compile, CUDA graphs, over compile": "1.00x",
                "torch.compile default, tokens/s": "51,000 on an H100",
            },
        ),
        flagship("rounds", "Three rounds of the best", 3.2, lambda at: at.best, rounds=3),
    ],
    3: [
        # Compiled code is compared with eager code, which computes nothing on the stand-in: stage 7 has these cases.
        check_step(
            "check",
            "Every plugin, alone and with the others",
            6.5,
            without_values=[
                word for kind in ("alone", "gradient", "types", "resume", "pair") for word in ("--kind", kind)
            ],
        ),
        memcheck_step("test_gpu_kernel_gpu", 1),
        memcheck_step("test_fused_kernels_gpu", 1.5),
    ],
    4: [
        flagship(
            "float8",
            "float8 over the compiler, and by its own kernels",
            4,
            lambda at: ["micro-batch 8", "float8 by kernels", "compile", "float8"],
            expected={
                "float8, over compile": "1.08x to 1.11x",
                "float8 by kernels, over micro-batch 8": "1.15x to 1.18x",
            },
        ),
        check_step(
            "check_float8",
            "float8 alone, on experts as well",
            1.5,
            "--plugin",
            "float8",
            "--kind",
            "alone",
            "--kind",
            "resume",
        ),
        Step(
            "counters",
            "Hardware counters of the fused kernels",
            1.5,
            lambda at: [
                "ncu",
                "--clock-control",
                "none",
                "--set",
                "basic",
                "--launch-count",
                "60",
                "--csv",
                "--log-file",
                at.outputs / "kernels.csv",
                at.test_program("test_fused_kernels_gpu"),
            ],
            needs="ncu",
        ),
        Step(
            "kernels",
            "Each fused kernel against the memory's limit",
            3,
            lambda at: at.run("kernels", "kernels", "--rounds", "1"),
            report="kernels",
        ),
    ],
    5: [
        flagship(
            "larger",
            "Larger batches on a large card, else the tuned compilers of both sides",
            9,
            larger,
            expected={"micro-batch 16, over compile": "1.01x to 1.02x"},
        )
    ],
    6: [
        Step(
            "single_gpu",
            "From fp32 up, with checkpointing and long sequences",
            9,
            lambda at: at.run("single_gpu", "single_gpu", "--rounds", "1" if at.stand_in else "3", *not_compared(at)),
            report="single_gpu",
        )
    ],
    7: [
        check_step(
            "check_compiled",
            "Every plugin under the compiler, the most informative ones first",
            9,
            "--kind",
            "compiled",
            without_values=("--plugin", "compile:self_check=false"),
        )
    ],
}
PROGRAMS = sorted({step.name for steps in STAGES.values() for step in steps if step.name.startswith("test_")})
