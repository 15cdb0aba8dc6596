"""optrush bisect: finds the package that changed the speed of a program between two environments.

    optrush bisect --from old.txt --to new.txt -- train.py --batch 8

An environment is a virtual environment, or a file that pip freeze has written. Each measurement runs the program in
three environments, in the same rounds: before, after, and a mixture, in which half of the changed packages are new. The
mixture shows which half has the change, which is halved again.
"""
import argparse
import json
import math
import pathlib
import sys
import tempfile
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Protocol, Set, Tuple

from .environments import VENVS, Environment, Unusable, environment_of, mixture
from .host import RunFailed, run

Packages = FrozenSet[str]
Conflicts = Callable[[Packages], Set[Tuple[str, str]]]  # pairs that contradict each other with these packages moved


class NotMeasured(Exception):
    """The program fails in the first or the last environment, or there was too little time."""


class Ratio(NamedTuple):
    """Speed relative to another environment, with its interval."""
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f}x [{self.low:.3f}, {self.high:.3f}]"


class Measured(NamedTuple):
    """One measurement: the speeds of the upper environment and of the mixture relative to the lower one."""
    upper: Ratio
    mixed: Optional[Ratio]  # None: the program failed in the mixture
    reason: str = ""
    phases: Dict[str, Tuple[float, float]] = {}  # seconds in the lower and the upper environment


class Measure(Protocol):
    def __call__(self, lower: Packages, upper: Packages, mixed: Optional[Packages]) -> Measured: ...


class Found(NamedTuple):
    """`suspects`: the packages that are left; more than one if they could not be separated."""
    suspects: List[str]
    whole: Ratio      # from the first environment to the last
    share: float      # of the suspects in the whole change, of logarithms
    last: Measured    # with and without the suspects
    reason: str = ""  # why more than one is left


def _half(groups: List[Packages], attempt: int) -> Packages:
    """Half of the groups. Each attempt chooses others."""
    half = max(1, len(groups) // 2)
    chosen = groups[:half] if attempt == 0 else groups[-half:] if attempt == 1 else groups[::2][:half]
    return frozenset().union(*chosen)


class _Search:
    """The change of speed is between the environments `lower` and `upper`, which differ in the groups `left`."""

    def __init__(self, groups: List[Packages], measure: Measure, conflicts: Conflicts,
                 say: Callable[[str], None]) -> None:
        self.left, self.measure, self.conflicts, self.say = groups, measure, conflicts, say
        self.lower: Packages = frozenset()
        self.upper: Packages = frozenset().union(*groups)

    def halve(self) -> str:
        """Leaves a half of the groups. Returns why it cannot; empty: it did, or packages were joined."""
        reason = ""
        for attempt in range(3):
            chosen = _half(self.left, attempt)
            together = joined(self.left, self.conflicts(self.lower | chosen))
            if len(together) < len(self.left):
                self.left = together
                return ""
            last = self.measure(self.lower, self.upper, self.lower | chosen)
            if last.mixed is None:
                self.say(f"  with {_names(chosen)} the program fails: {last.reason}")
                reason = f"the program fails with a part of them: {last.reason}"
                continue
            middle = math.sqrt(last.upper.value)
            clear = not last.mixed.low <= middle <= last.mixed.high
            self.say(f"  with {_names(chosen)}: {last.mixed} of {last.upper}" + ("" if clear else ", not clear"))
            if clear:
                if (last.mixed.value < middle) == (last.upper.value < 1):
                    self.upper = self.lower | chosen
                else:
                    self.lower |= chosen
                self.left = [group for group in self.left if group <= self.upper - self.lower]
                return ""
            reason = "no half of them has the change alone"
        return reason


def search(groups: List[Packages], measure: Measure, conflicts: Conflicts,
           say: Callable[[str], None]) -> Optional[Found]:
    """Halves the groups of changed packages. None: the environments are not measured to differ."""
    state = _Search(groups, measure, conflicts, say)
    last = measure(state.lower, state.upper, None)
    whole = last.upper
    say(f"all {len(state.upper)} changed packages: {whole}")
    if whole.low <= 1 <= whole.high:
        return None
    reason = ""
    while len(state.left) > 1 and not reason:
        reason = state.halve()
    if len(state.left) < len(groups):
        last = measure(state.lower, state.upper, None)  # fresh rounds, because the others have chosen the half
    share = math.log(last.upper.value) / math.log(whole.value)
    return Found(sorted(state.upper - state.lower), whole, share, last, reason)


def _names(packages: Packages) -> str:
    names = sorted(packages)
    return ", ".join(names) if len(names) < 4 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def changed(old: Environment, new: Environment) -> List[Packages]:
    """The packages that differ, each alone."""
    names = sorted({*old.packages, *new.packages} - {VENVS})
    return [frozenset([name]) for name in names if old.version(name) != new.version(name)]


def joined(groups: List[Packages], conflicts: Iterable[Tuple[str, str]]) -> List[Packages]:
    """The groups with the packages together that require each other's version."""
    for one, other in sorted(conflicts):
        touched = [group for group in groups if one in group or other in group]
        if len(touched) > 1:
            groups = [group for group in groups if group not in touched] + [frozenset().union(*touched)]
    return sorted(groups, key=lambda group: sorted(group))


class Mixtures:
    """The environments by their moved packages."""

    def __init__(self, folder: pathlib.Path, old: Environment, new: Environment) -> None:
        self.folder, self.old, self.new = folder, old, new
        self.known_conflicts = old.conflicts() | new.conflicts()
        self.made: Dict[Packages, Environment] = {}

    def of(self, moved: Packages) -> Environment:
        if moved not in self.made:
            self.made[moved] = mixture(self.folder / f"mixture-{len(self.made)}", self.old, self.new, moved)
        return self.made[moved]

    def conflicts(self, moved: Packages) -> Set[Tuple[str, str]]:
        return self.of(moved).conflicts() - self.known_conflicts


def _lua(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class Rounds:
    """Measures by `optrush run`: one experiment, with an environment in each row."""

    def __init__(self, mixtures: Mixtures, asked: argparse.Namespace) -> None:
        self.mixtures, self.asked = mixtures, asked
        self.reports = asked.out / "reports"
        labels = [int(found.name) for found in self.reports.glob("bisect/*") if found.name.isdigit()]
        self.count = max(labels, default=0)  # the reports of an earlier search stay
        self.whole: Optional[float] = None  # the logarithm of the first ratio

    def __call__(self, lower: Packages, upper: Packages, moved: Optional[Packages]) -> Measured:
        self.count += 1
        rungs = [("after", upper), *([("mixture", moved)] if moved is not None else [])]
        # A quarter of the change is fine enough to see on which side a mixture is.
        within = self.asked.within if self.whole is None else max(0.002, abs(self.whole) / 4)
        lines = [
            'local rush = require "optrush"', "local exp = rush.experiment {",
            f'  name = "bisect", program = {{ command = {self._command(lower)} }},',
            f"  train = {{ micro_batch = {self.asked.micro_batch}, seq_len = {self.asked.seq_len}, "
            f"steps = {self.asked.steps}, warmup = {self.asked.warmup} }},", "}", "exp:ladder {",
            *(f'  rush.rung("{name}", {{ command = {self._command(moved)}, over = "base", effect = "model" }}),'
              for name, moved in rungs),
            "}", f'exp:run({{ within = {within:.4f}, at_most = {_lua(self.asked.at_most)} }}):report()'
        ]
        with tempfile.NamedTemporaryFile("w", suffix=".lua", prefix=".bisect-", dir=".", encoding="utf-8") as script:
            script.write("\n".join(lines) + "\n")
            script.flush()
            report = run(script.name, label=f"{self.count}", options=["--out", str(self.reports)])
        rows = {row["rung"]: row for row in report.results["rows"]}
        for name in ("base", "after"):
            if rows[name]["status"] != "ok":
                raise NotMeasured(f"the program fails in the environment '{name}': {rows[name]['reason']}\n"
                                 f"see {report.folder}")
        mixed = rows.get("mixture")
        phases = {phase: (seconds, rows["after"]["phases"].get(phase) or 0.0)
                  for phase, seconds in rows["base"]["phases"].items() if seconds}
        measured = Measured(self._ratio(rows["after"], report.folder),
                            self._ratio(mixed, report.folder) if mixed and mixed["status"] == "ok" else None,
                            mixed["reason"] if mixed else "", phases)
        self.whole = self.whole or math.log(measured.upper.value)
        return measured

    def _command(self, moved: Packages) -> str:
        words = [str(self.mixtures.of(moved).python.absolute()), *self.asked.program]
        return "{ " + ", ".join(_lua(word) for word in words) + " }"

    @staticmethod
    def _ratio(row: Dict[str, Any], folder: pathlib.Path) -> Ratio:
        speed = (row.get("vs_base") or {}).get("speed")
        if not speed or not speed.get("interval"):
            raise NotMeasured(f"'{row['rung']}' has too few rounds for an interval; give more time with --at-most\n"
                             f"see {folder}")
        return Ratio(speed["value"], *speed["interval"])


def sentences(found: Optional[Found], old: Environment, new: Environment) -> List[str]:
    """The answer for readers."""
    if found is None:
        return ["No change of speed is measured between the environments. A smaller change needs more time: --at-most"]
    moves = [f"{name} {old.version(name) or '(not installed)'} -> {new.version(name) or '(removed)'}"
             for name in found.suspects]
    part = "the whole change" if found.share > 0.95 else f"{100 * found.share:.0f} % of the whole change"
    answer = (f"{', '.join(moves)}: {found.last.upper} of the speed without it, measured in fresh rounds; "
              f"{part}, {found.whole}.")
    if len(moves) > 1:
        reason = found.reason or "their versions require each other"
        answer = f"One or more of {len(moves)} packages, because {reason}: {answer}"
    lines = [answer]
    steps = [f"{phase} {1e3 * before:.2f} -> {1e3 * after:.2f} ms"
             for phase, (before, after) in found.last.phases.items()]
    if steps:
        lines.append("In a step: " + ", ".join(steps) + ".")
    if found.share < 0.75:
        lines.append("The rest of the change is in other packages: keep this package old and run again.")
    return lines


def options(words: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="optrush bisect", description="Finds the package that changed the speed of a "
                                     "program between two environments.")
    parser.add_argument("--from", dest="old", type=pathlib.Path, required=True, metavar="LOCK",
                        help="virtual environment, or a file of pip freeze")
    parser.add_argument("--to", dest="new", type=pathlib.Path, required=True, metavar="LOCK", help="the later one")
    parser.add_argument("--python", default=sys.executable, help="the Python of environments that are made from files")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bisect"),
                        help="folder of environments and reports")
    parser.add_argument("--within", type=float, default=0.02, help="precision of the first ratio (default: 0.02)")
    parser.add_argument("--at-most", default="10m", metavar="TIME", help="limit of each measurement (default: 10m)")
    parser.add_argument("--micro-batch", type=int, default=1, help="sequences of a step, as the program trains them")
    parser.add_argument("--seq-len", type=int, default=1, help="tokens of a sequence")
    parser.add_argument("--steps", type=int, default=20, help="timed steps of a run (default: 20)")
    parser.add_argument("--warmup", type=int, default=5, help="untimed steps before them (default: 5)")
    parser.add_argument("program", nargs="+", help="-- and the arguments of python: train.py --batch 8")
    return parser.parse_args(words)


def answer(asked: argparse.Namespace) -> int:
    asked.out.mkdir(parents=True, exist_ok=True)
    old = environment_of(asked.old, asked.out / "from", asked.python)
    new = environment_of(asked.new, asked.out / "to", asked.python)
    if old.release != new.release:
        raise Unusable(f"the environments have Python {old.release} and {new.release}; a mixture needs one Python, so "
                       "make both with the same one (--python)")
    groups = changed(old, new)
    if not groups:
        raise Unusable("the environments have the same packages and versions")
    mixtures = Mixtures(asked.out.absolute(), old, new)
    found = search(groups, Rounds(mixtures, asked), mixtures.conflicts, lambda text: print(text, flush=True))
    for line in sentences(found, old, new):
        print(line)
    return 0 if found else 1


def main(words: Optional[List[str]] = None) -> int:
    """The command. Exit codes: 0 a package is found; 1 none is found, or the program fails; 2 wrong usage."""
    try:
        return answer(options(words))
    except (NotMeasured, RunFailed, Unusable) as failed:
        print(f"optrush bisect: {failed}", file=sys.stderr)
        return 2 if isinstance(failed, Unusable) else 1


if __name__ == "__main__":
    sys.exit(main())
