"""Plans and measures by `optrush run`. Each phase of a try has a report in DIR/tries, which grows with its rounds."""
import ctypes
import datetime
import json
import math
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional

from ..environments import Unusable, environment_of
from ..host import RunFailed, program
from ..report import Report, read
from . import plugin_folder
from .challengers import Refused, rung
from .log import Event
from .decide import MOST_ROUNDS, margin
from .lua import NAME, ByLoss, script
from .rounds import log_ratios, to_loss
from .session import SHORT, Champion, Session, Try
from .statistics import Estimate

_BY_STATUS = {"broken": "gate", "oom": "memory", "skipped": "plan"}
_ENDED_BY_SIGNAL = 128
# Differences of problems whose losses have one meaning.
_SAME_LOSS = (" sequences per step", "another function or task", "other trained parameters")


class ChampionFails(Exception):
    """The champion does not train, so nothing can be compared with it."""


class Interrupted(Exception):
    def __init__(self, code: int) -> None:
        super().__init__("interrupted; the same command continues")
        self.code = code


class Failure(NamedTuple):
    code: str
    text: str


def _failure(output: str) -> Failure:
    """The error that the host printed."""
    found = re.search(r"error\[(\w+)\]: (?:\.referee-\S+\.lua:\d+: )?(.*)", output, re.DOTALL)
    return Failure(found[1], found[2].strip()) if found else Failure("internal", output.strip()[-1000:])


def machine() -> str:
    """What a measured ratio depends on: processor, cores, GPUs, version of the program."""
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    gpus = [re.search(r"^Model:\s*(.*)$", file.read_text(), re.MULTILINE)
            for file in sorted(pathlib.Path("/proc/driver/nvidia/gpus").glob("*/information"))]
    version = subprocess.run([*program(), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return ", ".join([model[1].strip() if model else platform.machine(), f"{len(os.sched_getaffinity(0))} cores",
                      *(each[1] for each in gpus if each), f"optrush {version[-1]}"])


def _ends_with_parent() -> None:
    """In the child: a run of a command that is killed ends as after Ctrl-C."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def host(words: List[str]) -> "subprocess.CompletedProcess[str]":
    """Runs optrush. The peaks of the machine are not needed, so they are measured for the shortest time."""
    environment = {"OPTRUSH_PROBE_SECONDS": "0.02", **os.environ}
    done = subprocess.run([*program(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment, preexec_fn=_ends_with_parent)
    if done.returncode > _ENDED_BY_SIGNAL or done.returncode < 0:
        raise Interrupted(done.returncode if done.returncode > 0 else _ENDED_BY_SIGNAL - done.returncode)
    return done


def dry_run(text: str, options: List[str]) -> Dict[str, Any]:
    """The first experiment of a script: variants, plans and failures."""
    done = host(["run", text, "--dry-run", "--json", *options])
    if done.returncode != 0:
        raise RunFailed(done.returncode, done.stderr or done.stdout)
    experiments = json.loads(done.stdout)
    if not experiments:
        raise Refused(f"{text} measures no experiment", "script_error")
    first: Dict[str, Any] = experiments[0]
    return first


class Machine:
    """The world of pursue.py."""

    def __init__(self, folder: pathlib.Path, session: Session, scripts: pathlib.Path) -> None:
        self.folder, self.session = folder, session
        # Relative paths of the champion start at the folder in which its script was.
        self.scripts = scripts if os.access(scripts, os.W_OK) else folder

    def clock(self) -> float:
        return time.monotonic()

    def date(self) -> str:
        return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def plan(self, challenger: Dict[str, Any]) -> Event:
        try:
            return self.planned(challenger)
        except plugin_folder.BuildFailed as failed:
            return {"problem": {"by": "build", "code": "invalid_plugin", "text": str(failed)}}
        except (Refused, Unusable) as refused:
            return {"problem": {"by": "plan", "code": getattr(refused, "code", "conflict"), "text": str(refused)}}
        except RunFailed as failed:
            code, text = _failure(str(failed))
            return {"problem": {"by": "plan", "code": code, "text": text}}

    def planned(self, challenger: Dict[str, Any]) -> Event:
        """The stack of a challenger on the champion, or the problem of its plan."""
        champion = self.session.champion
        made, paths, python = champion.plugin, list(champion.plugin_path), None
        if challenger["kind"] == "plugin_folder":
            source = pathlib.Path(challenger["path"])
            name, built, path = plugin_folder.build(source, self.folder / "builds" / challenger["key"],
                                                    challenger["key"], program())
            challenger = {**challenger, "plugin": name}
            made, paths = {"name": name, "built": built}, [path, *paths]
        elif challenger["kind"] == "environment":
            made_in = self.folder / "environments" / challenger["key"]
            python = str(environment_of(pathlib.Path(challenger["path"]), made_in,
                                        sys.executable).python.absolute())
        expression = rung(challenger, champion, python, made["built"] if made else None)
        dry = self._dry(script(champion, expression, self.session.settings.timeout, by_loss=self.seeds(0, 1)), paths)
        variants = dry["variants"]
        self._same_files(variants[0]["external"], champion)
        for failure in dry["failures"]:
            if failure["variant"] == 0:
                raise ChampionFails(f"the champion cannot run: {failure['reason']}")
            by = "memory" if failure["code"] == "out_of_memory" else "plan"
            return {"name": variants[-1]["name"], "problem": {"by": by, "code": failure["code"],
                                                              "text": failure["reason"]}}
        plan = dry["plans"][-1] or {}
        return {"name": variants[-1]["name"], "spec": variants[-1]["spec"], "external": variants[-1]["external"],
                "plugin_path": paths, "plugin": made, "rung": expression,
                "peak_bytes": (plan.get("memory") or {}).get("peak_bytes")}

    def measure(self, attempt: Try, phase: str, rounds: int) -> Event:
        planned, champions = attempt.planned or {}, self.session.champions
        label = f"{attempt.number:03}-{phase}"
        rounds = max(rounds, self._rounds_of(label))  # of an attempt that was interrupted
        by_loss = self.seeds(2 * attempt.number + (phase == "confirm"), rounds)
        beside = phase == "confirm" and len(champions) > 1 and not by_loss
        base = champions[0] if beside else champions[-1]
        if phase == "screen" and self.session.is_short(attempt):
            base = base.with_steps(math.ceil(base.spec["train"]["steps"] / SHORT))
        text = script(base, planned["rung"], self.session.settings.timeout,
                      over=champions[-1] if beside else None, by_loss=by_loss)
        stored = self._stored(text, label, rounds, planned["plugin_path"])
        rows, report = stored.results["rows"], f"{NAME}/{label}"
        row = rows[-1]
        for each in rows[:-1]:
            if each["status"] != "ok":
                raise ChampionFails(f"'{each['rung']}' does not train: {each['reason']}\nsee {self.folder / report}")
        if row["status"] != "ok":
            by = _BY_STATUS.get(row["status"], "run")
            return {"report": report, "problem": {"by": by, "code": row.get("code") or "internal",
                                                  "text": row["reason"]}}
        compared = row["vs_previous"]
        if refused := self._not_alike(compared["differs"]):
            return {"report": report, "problem": {"by": "task", "code": "conflict", "text": refused}}
        if by_loss:
            return {"report": report, **self._to_loss(stored, row, rows[-2])}
        if compared["worse"]:
            return {"report": report, "problem": {"by": "gate", "code": "wrong_result", "text": "it trains worse"}}
        logs = log_ratios(stored, row, rows[-2])
        if not logs:
            return {"report": report, "problem": {"by": "run", "code": "internal", "text": "no round has both runs"}}
        event = {"report": report, **Estimate.of_logs(logs).as_event()}
        if beside:
            event["total"] = Estimate.of_logs(log_ratios(stored, row, rows[0])).as_event()
        return event

    def champion_reaches(self) -> None:
        """Trains the first champion once, and refuses a loss that it does not reach."""
        champion, settings = self.session.champion, self.session.settings
        by_loss = self.seeds(0, 1)
        stored = self._stored(script(champion, None, settings.timeout, by_loss=by_loss),
                              f"champion-{settings.target_loss:g}", 1, champion.plugin_path)
        (row,) = stored.results["rows"]
        if row["status"] != "ok":
            raise ChampionFails(f"the champion does not train: {row['reason']}")
        (end,) = row["seeds"] or [{}]
        if "last" not in end:
            raise Refused("the champion reports no losses, so its time to a loss cannot be measured", "invalid_value")
        if end["seconds_to_loss"] is None:
            raise Refused(f"the champion does not reach a loss of {settings.target_loss:g}: after {end['steps']} steps "
                          f"its {end['by']} is {end['last']:.4f}; give a higher --target-loss, or more --steps",
                          "invalid_value")

    def recheck(self, rounds: int) -> Event:
        first, champion = self.session.champions[0], self.session.champion
        label = f"machine-{len(self.session.machines)}"
        # No try has an odd place below 2.
        by_loss = self.seeds(1, rounds, MOST_ROUNDS // 2 * (len(self.session.machines) - 2))
        stored = self._stored(script(first, None, self.session.settings.timeout, over=champion, by_loss=by_loss), label,
                              rounds, champion.plugin_path)
        rows = stored.results["rows"]
        for each in rows:
            if each["status"] != "ok":
                raise ChampionFails(f"'{each['rung']}' does not train on this machine: {each['reason']}")
        if by_loss:
            return {"machine": self.session.machines[-1], "report": f"{NAME}/{label}",
                    **self._to_loss(stored, rows[-1], rows[0])}
        return {"machine": self.session.machines[-1], "report": f"{NAME}/{label}",
                **Estimate.of_logs(log_ratios(stored, rows[-1], rows[0])).as_event()}

    def seeds(self, place: int, rounds: int, begin: int = 0) -> Optional[ByLoss]:
        """The seeds of a phase, which no other phase of the session has; none if the session compares speeds."""
        first = 1 + 2 * MOST_ROUNDS * place + begin
        target = self.session.settings.target_loss
        return ByLoss(target, list(range(first, first + rounds))) if target else None

    def _to_loss(self, stored: Report, row: Dict[str, Any], reference: Dict[str, Any]) -> Event:
        """The fields of `measured` for times to the target loss."""
        made = to_loss(row, reference, margin(self.session.settings))
        if made.unreached:
            raise ChampionFails(
                f"the champion does not reach a loss of {self.session.settings.target_loss:g} with seed "
                f"{made.unreached[0]}; begin another session with a higher --target-loss, or with more --steps")
        if not made.logs:
            return {"problem": {"by": "run", "code": "internal", "text": "no round has losses of both runs"}}
        tokens = Estimate.of_logs(log_ratios(stored, row, reference))
        return {**Estimate.of_logs(made.logs).as_event(), "tokens": tokens.as_event(), "ended_early": made.ended_early}

    def _not_alike(self, differs: str) -> str:
        """Why the ratio is none of one problem; empty: it is, or the session allows the difference."""
        by_loss, allow = self.session.settings.target_loss > 0, self.session.settings.allow
        parts = [part for part in (differs.split(", ") if differs else [])
                 if ("batch" if part.endswith((" per step", " per sequence")) else "task") not in allow
                 and not (by_loss and part.endswith(_SAME_LOSS))]
        return "it trains " + ", ".join(parts) if parts else ""

    def _same_files(self, external: Dict[str, Any], champion: Champion) -> None:
        before = champion.external.get("files", {}) if champion.external else {}
        for file, digest in external.get("files", {}).items() if external else ():
            if before.get(file, digest) != digest:
                raise ChampionFails(f"'{file}', a file of the champion, has changed since it was measured; restore it, "
                                    "and give a changed copy as the challenger")

    def _script(self, text: str, label: str) -> pathlib.Path:
        file = self.scripts / f".referee-{label}.lua"
        file.write_text(text, encoding="utf-8")
        return file

    def _dry(self, text: str, paths: List[str]) -> Dict[str, Any]:
        file = self._script(text, f"plan-{os.getpid()}")
        try:
            return dry_run(str(file), _paths(paths))
        finally:
            file.unlink()

    def _rounds_of(self, label: str) -> int:
        results = (self.folder / NAME / label / "runs").glob("*/result.json")
        found = (re.search(r"-r(\d+)$", result.parent.name) for result in results)
        return max((int(each[1]) for each in found if each), default=0)

    def _stored(self, text: str, label: str, rounds: int, paths: List[str]) -> Report:
        """A report after this number of rounds. Stored rounds count."""
        folder, file = self.folder / NAME / label, self._script(text, label)
        try:
            given = [] if self.session.settings.target_loss else ["--rounds", str(rounds)]  # the seeds are the rounds
            done = host(["run", str(file), "--label", label, *given, "--out", str(self.folder), *_paths(paths),
                         *(["--resume"] if (folder / "journal.jsonl").is_file() else [])])
        finally:
            file.unlink()
        if "report.md" not in done.stdout:
            raise RunFailed(done.returncode, done.stderr or done.stdout)
        return read(folder)


def _paths(paths: List[str]) -> List[str]:
    return [word for path in paths for word in ("--plugin-path", path)]
