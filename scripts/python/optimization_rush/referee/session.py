"""A session: the state that its events make."""
from typing import Any, Dict, Iterable, List, NamedTuple, Optional

from .log import Event
from .statistics import Estimate

SHORT = 2  # a run of a screening has this part of the steps of a confirmation, where the trainer counts them


class Settings(NamedTuple):
    """`alpha`: the probability that the whole session keeps a change without effect. `gain`: the smallest gain that
    matters; 0.02 is 2 %. `allow`: differences of the problem that a challenger may have: batch, task. `target_loss`:
    challengers are compared by their training time to this loss; 0: by tokens/s."""
    alpha: float = 0.01
    gain: float = 0.02
    allow: List[str] = []
    timeout: float = 600.0
    target_loss: float = 0.0


class Confirmation:
    """The rounds of a challenger that were not seen when it was chosen. `index`: the number of the confirmation in
    the session. `first`: the rounds of the first look."""

    def __init__(self, index: int, first: int) -> None:
        self.index, self.first, self.looks = index, first, 0
        self.estimate: Optional[Estimate] = None

    def rounds_at(self, look: int) -> int:
        return self.first * 2**(look - 1)


class Try:
    """A challenger against a champion, on one machine."""

    def __init__(self, event: Event, machine: int) -> None:
        self.number: int = event["try"]
        self.key: str = event["key"]
        self.challenger: Dict[str, Any] = event["challenger"]
        self.champion: int = event["champion"]
        self.time: str = event["time"]
        self.machine = machine
        self.planned: Optional[Event] = None
        self.problem: Optional[Dict[str, str]] = None
        self.screen: Optional[Estimate] = None
        self.asked = 0                         # rounds of the screening that were asked for; some may have failed
        self.confirmation: Optional[Confirmation] = None
        self.total: Optional[Estimate] = None  # relative to the first champion, from the confirmation
        self.tokens: Optional[Estimate] = None  # with a target loss: the ratio of tokens/s
        self.ended_early = 0  # with a target loss: rounds whose losing side was stopped
        self.answer: Optional[Event] = None
        self.seconds: Dict[str, float] = {}    # by step
        self.seconds_per_round: Optional[float] = None
        self.reports: List[str] = []

    @property
    def name(self) -> str:
        return str((self.planned or {}).get("name") or self.challenger["text"])

    @property
    def whole(self) -> Optional[Estimate]:
        """Relative to the first champion, of a try that was confirmed."""
        return self.total or (self.confirmation.estimate if self.confirmation else None)

    @property
    def rounds(self) -> int:
        confirmed = self.confirmation and self.confirmation.estimate
        return (self.screen.rounds if self.screen else 0) + (confirmed.rounds if confirmed else 0)


class Champion(NamedTuple):
    """What challengers are compared with: a stack as `optrush run --dry-run --json` states it."""
    name: str
    spec: Dict[str, Any]
    external: Dict[str, Any]
    plugin_path: List[str]
    plugin: Optional[Dict[str, str]]  # the last plugin that was built from a folder: its name there and in the build
    by: Optional[int] = None          # the try that made it

    @classmethod
    def of(cls, event: Event, by: Optional[int] = None) -> "Champion":
        return cls(event["name"], event["spec"], event["external"], event.get("plugin_path", []), event.get("plugin"),
                   by)

    def with_steps(self, steps: int) -> "Champion":
        return self._replace(spec={**self.spec, "train": {**self.spec["train"], "steps": steps}})


class Session:
    """`add` takes the events in their order."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.settings = Settings()
        self.begun = ""
        self.command = ""
        self.champions: List[Champion] = []
        self.tries: List[Try] = []
        self.confirmations = 0
        self.machines: List[str] = []
        self.recheck_due = False
        self.rechecks: List[Event] = []
        self.seconds_per_round: Optional[float] = None
        for event in events:
            self.add(event)

    @property
    def champion(self) -> Champion:
        return self.champions[-1]

    def latest(self, key: str) -> Optional[Try]:
        """The last try of this challenger against the present champion on the present machine."""
        for attempt in reversed(self.tries):
            if (attempt.key == key and attempt.machine == len(self.machines) and
                    attempt.champion == len(self.champions) - 1):
                return attempt
        return None

    def is_short(self, attempt: Try) -> bool:
        """Whether a screening has fewer steps: an end after fewer steps is no other training."""
        spec = self.champions[attempt.champion].spec
        return not (self.settings.target_loss or spec.get("model_kind", "program") == "program" or
                    spec["validate"]["every"] or spec["train"]["epochs"] or spec["train"]["overfit"] or
                    spec["train"]["steps"] < 2 * SHORT)

    def kept(self, key: str) -> Optional[Try]:
        """The try that has made this challenger a champion."""
        return next((each for each in self.tries if each.key == key and (each.answer or {}).get("answer") == "faster"),
                    None)

    def add(self, event: Event) -> None:
        kind = event["event"]
        if kind == "session":
            self.settings, self.begun = Settings(**event["settings"]), event["time"]
            self.champions = [Champion.of(event["champion"])]
        elif kind == "machine":
            self.recheck_due = bool(self.machines) and len(self.champions) > 1
            self.machines.append(event["machine"])
            self.seconds_per_round = None
        elif kind == "rechecked":
            self.recheck_due = False
            self.rechecks.append(event)
        elif kind == "tried":
            self.tries.append(Try(event, len(self.machines)))
        else:
            self._of_try(kind, self.tries[event["try"] - 1], event)

    def _of_try(self, kind: str, attempt: Try, event: Event) -> None:
        step = event.get("phase", "plan")
        attempt.seconds[step] = attempt.seconds.get(step, 0.0) + event.get("seconds", 0.0)
        if "problem" in event:
            attempt.problem = event["problem"]
        if kind == "planned":
            attempt.planned = event
        elif kind == "measured":
            self._measured(attempt, event)
        elif kind == "confirming":
            self.confirmations = event["index"]
            attempt.confirmation = Confirmation(event["index"], event["rounds"])
            if attempt.seconds_per_round and self.is_short(attempt):
                attempt.seconds_per_round *= SHORT
        elif kind == "answered":
            attempt.answer = event
            if event["answer"] == "faster" and attempt.planned:
                self.champions.append(Champion.of(attempt.planned, attempt.number))

    def _measured(self, attempt: Try, event: Event) -> None:
        if event["report"] not in attempt.reports:
            attempt.reports.append(event["report"])
        if attempt.problem:
            return
        estimate, before = Estimate.of_event(event), attempt.screen
        if event.get("tokens"):
            attempt.tokens, attempt.ended_early = Estimate.of_event(event["tokens"]), event["ended_early"]
        if attempt.confirmation:
            before, attempt.confirmation.estimate = attempt.confirmation.estimate, estimate
            attempt.confirmation.looks += 1
            if event.get("total"):
                attempt.total = Estimate.of_event(event["total"])
            elif self.settings.target_loss and (by := self.champions[attempt.champion].by):
                attempt.total = estimate.after(self.tries[by - 1].whole)
        else:
            attempt.screen, attempt.asked = estimate, event["asked"]
        new = estimate.rounds - (before.rounds if before else 0)
        if new > 0:
            self.seconds_per_round = attempt.seconds_per_round = event["seconds"] / new
