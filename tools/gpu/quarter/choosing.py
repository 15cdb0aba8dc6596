"""Chooses what the next call runs: the steps that no committed result has answered, in the order of their worth."""

import json
from dataclasses import dataclass, field

from quarter.stages import FIRST, SECOND, STAGES

KINDS = ("H100", "H200")
OVERHEAD = 0.5  # minutes of a call beside its steps: unpacking, installing, packing


@dataclass(frozen=True)
class Quarter:
    """What one card has answered: a file of reports/gpu, or the outcome of the calls so far."""

    card: str
    commit: str
    date: str
    steps: dict = field(default_factory=dict)  # outcome by name of the step

    @property
    def kind(self):
        return kind_of(self.card)


@dataclass(frozen=True)
class Open:
    """A step that waits, and why."""

    stage: int
    step: object
    why: str


def kind_of(card):
    return next((kind for kind in KINDS if kind in card), card)


def quarters_below(folder):
    """The committed results, the oldest first."""
    found = []
    for file in sorted(folder.glob("*.json")):
        page = json.loads(file.read_text())
        found.append(Quarter(page["card"], page["commit"], page["date"], page["steps"]))
    return sorted(found, key=lambda quarter: quarter.date)


def why_open(name, quarters, commit, kind=None):
    """Why a step waits, by what these quarters say of it; "" if it is answered, or if it was left out on this kind of
    card, where it would be left out again."""
    why, left_out = "it has not run", False
    for quarter in quarters:
        outcome = quarter.steps.get(name)
        if not outcome:
            continue
        status, where = outcome["status"], f"({quarter.date}, {quarter.card})"
        if status == "ok" or (status == "failed" and quarter.commit == commit):
            return ""
        if status == "left out":
            left_out = left_out or kind in (None, quarter.kind)
        elif status == "failed":
            why = f"it failed at commit {quarter.commit} {where}"
        else:
            why = f"it was ended by its {status} {where}" if status == "time limit" else f"it was {status} {where}"
    return "" if left_out else why


def open_steps(quarters, commit, kind=None):
    """The steps that wait, in the order of their worth. `kind`: of the card that is at hand; None: any."""
    found, names = [], set()
    for number, stage in STAGES.items():
        # A stage for each kind of card asks every kind that may be at hand; any card answers the others.
        asked = [kind] if kind else KINDS
        groups = [quarters]
        if stage.each_kind:
            groups = [[quarter for quarter in quarters if quarter.kind == one] for one in asked]
        for step in stage.steps:
            why = next(filter(None, (why_open(step.name, group, commit, kind) for group in groups)), "")
            if why and step.name not in names:
                found.append(Open(number, step, why))
                names.add(step.name)
    return found


def left_out(quarters):
    """Steps that were left out and have run nowhere: {name: the reason}."""
    ran = {name for quarter in quarters for name, outcome in quarter.steps.items() if outcome["status"] != "left out"}
    return {name: outcome.get("note", "") for quarter in quarters for name, outcome in quarter.steps.items()
            if outcome["status"] == "left out" and name not in ran}


def filled(waiting, minutes):
    """The steps of a call, and those for which it has no time. Untimed steps run at the same time."""
    chosen, left, room = [], [], minutes - OVERHEAD
    together = 0  # minutes of the untimed steps so far
    for each in waiting:
        takes = max(0, each.step.minutes - together) if each.step.untimed else each.step.minutes
        if takes > room + 1e-9:
            left.append(each)
            continue
        room -= takes
        together = max(together, each.step.minutes) if each.step.untimed else together
        chosen.append(each)
    return chosen, left


@dataclass(frozen=True)
class Call:
    minutes: float
    steps: list  # of Open


def next_calls(quarters, commit, kind=None):
    """The two calls of the next quarter of an hour; empty if every question is answered."""
    waiting, calls = open_steps(quarters, commit, kind), []
    for minutes in (FIRST, SECOND):
        chosen, waiting = filled(waiting, minutes)
        if chosen:
            calls.append(Call(minutes, chosen))
    return calls
