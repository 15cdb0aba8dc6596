"""A step of a call: a program with a time limit and what it is expected to measure. Functions make the usual kinds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from quarter.expected import exactly

SMALLEST, LARGE = 79e9, 100e9  # bytes of a card: as flagship.lua


@dataclass(frozen=True)
class Places:
    """The environment of a step: its folders and the card."""

    python: str
    package: Path  # the installed wheel
    reports: Path
    outputs: Path  # of the step alone
    memory_bytes: int  # of the card
    stand_in: bool  # it computes nothing, so results are not compared
    ours: tuple = ("bf16 weights",)  # rungs of the flagship: the one that compares like for like, and our fastest
    peers: tuple = ()  # the two fastest of other programs

    def optrush(self, *words):
        return [self.python, "-m", "optimization_rush", *words]

    def run(self, name, label, *words):
        """An experiment that ships, continued where an earlier call has ended it."""
        where = ("--out", self.reports, "--label", label, "--resume", "--device", "cuda")
        return self.optrush("run", f"@{name}", *where, *words)

    def test_program(self, name):
        return self.package / "bin" / name


@dataclass(frozen=True)
class Form:
    """One size of a step."""

    least_bytes: float  # of a card
    command: Callable  # of Places: the words of a command
    note: str = ""  # how it differs from the full step


@dataclass(frozen=True)
class Step:
    name: str
    title: str
    minutes: float  # expected; it is ended after half as much again
    forms: tuple  # the largest first
    shows: str = ""  # the kind of its rows in the findings (rows.py)
    report: tuple = ()  # the experiment and the label of the report that it writes
    tools: tuple = ()  # programs, of which the machine must have each; "a|b": one of these
    environment: dict = field(default_factory=dict)
    untimed: bool = False  # it measures no time, so it runs beside other untimed steps
    disk_bytes: float = 20e9  # what it writes; the default: exported weights of 1.2 billion parameters, states, caches
    cases: bool = False  # it writes check.json, and is done when each case there has run
    resumes: bool = False  # the next call continues it; otherwise it begins only if its minutes fit
    expected: dict = field(default_factory=dict)  # Expected by quantity

    def form(self, memory_bytes):
        """The largest form that the card has room for; None: there is none."""
        return next((form for form in self.forms if memory_bytes >= form.least_bytes), None)


def not_compared(at):
    """Options for the stand-in, which computes no values to compare compiled code with."""
    return ["--set", "compile.self_check=false"] if at.stand_in else []


COMPILER = ("c++|g++|clang++",)
# Six steps of half a second: a card's power settles, and a rung takes 10 s.
SHORT = ("--set", "train.steps=6", "--set", "train.warmup=2")


def only(rungs):
    return [word for rung in rungs for word in ("--only", rung)]


def flagship(name, title, minutes, rungs, *, smaller=(), label="ladder", rounds=1, settings=SHORT, more=(), **rest):
    """`rungs`: names, or a function of Places. `smaller`: the rungs on a card below 100 GB."""

    def command_of(chosen):
        def command(at):
            names = chosen(at) if callable(chosen) else chosen
            return at.run("flagship", label, "--preset", "full", "--rounds", str(rounds), *only(names), *settings,
                          *more, *not_compared(at))

        return command

    forms = [Form(LARGE if smaller else SMALLEST, command_of(rungs))]
    if smaller:
        forms.append(Form(SMALLEST, command_of(smaller), f"this card has less than 100 GB: {', '.join(smaller)}"))
    rest = {"shows": "rungs", "resumes": True} | rest
    return Step(name, title, minutes, tuple(forms), report=("flagship", label), **rest)


def experiment(name, title, minutes, script, *words, least_bytes=SMALLEST, **rest):
    """An experiment that ships, in one round."""

    def command(at):
        return at.run(script, name, "--rounds", "1", *words)

    return Step(name, title, minutes, (Form(least_bytes, command),), shows="rungs", report=(script, name),
                resumes=True, **rest)


def test_step(program, minutes, title="kernels beside their plain form", **rest):
    def command(at):
        return [at.test_program(program), f"--gtest_output=json:{at.outputs / 'tests.json'}"]

    return Step(program, f"{program}: {title}", minutes, (Form(0, command),), shows="tests", untimed=True,
                expected={"tests that failed": exactly(0)}, **rest)


def memcheck_step(program, minutes):
    def command(at):
        return ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "1", at.test_program(program)]

    return Step(f"memcheck_{program}", f"memcheck over {program}", minutes, (Form(0, command),), shows="exit code",
                tools=("compute-sanitizer",), expected={"exit code": exactly(0)})


def check_step(name, title, minutes, *selected, without_values=()):
    """A check. Its cases are kept, so the next call continues it. `without_values` is added on the stand-in."""

    def command(at):
        words = ["--without-values", *without_values] if at.stand_in else []
        kept = ("--resume", "--folder", at.outputs / "state", "--json", at.outputs / "check.json")
        return at.optrush("check", "--device", "cuda", "--for", f"{60 * minutes - 15:.0f}s", *kept, *selected, *words)

    return Step(name, title, minutes, (Form(0, command),), shows="cases", cases=True, resumes=True,
                expected={"cases that failed": exactly(0)})
