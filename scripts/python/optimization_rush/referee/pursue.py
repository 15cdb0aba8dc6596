"""Takes steps until a challenger has an answer. The world measures, or simulates."""
from typing import Any, Callable, Dict, Optional, Protocol

from . import decide
from .decide import Answer, Begin, Confirm, Known, Measure, Plan, Recheck, Request
from .log import Event
from .sentences import counted
from .session import Session, Try


class World(Protocol):
    def plan(self, challenger: Dict[str, Any]) -> Event:
        """The fields of `planned`: name, spec, external and others, or problem."""

    def measure(self, attempt: Try, phase: str, rounds: int) -> Event:
        """The fields of `measured`: rounds, mean, error, report, or problem."""

    def recheck(self, rounds: int) -> Event:
        """The fields of `rechecked`."""

    def clock(self) -> float: ...

    def date(self) -> str: ...


def answered(step: Answer) -> Event:
    """The event of an answer."""
    estimate, need = step.estimate, step.need
    event: Dict[str, Any] = {"event": "answered", "try": step.number, "answer": step.answer}
    if estimate:
        event.update(rounds=estimate.rounds, speed=estimate.mean,
                     low=None if estimate.rounds < 3 else estimate.low(0.025),
                     high=None if estimate.rounds < 3 else estimate.high(0.025))
    if step.at_least is not None:
        event["at_least"] = step.at_least
    if need:
        event.update(more_rounds=need.rounds, more_seconds=need.seconds)
    return event


def pursue(session: Session, add: Callable[[Event], None], world: World, request: Request,
           challenger: Dict[str, Any], say: Optional[Callable[[str], None]] = None) -> Try:
    """Takes the steps of a request. `add` writes an event to the log."""
    end = world.clock() + request.seconds

    def done(event: Event, seconds: Optional[float] = None) -> None:
        if seconds is not None:
            event["seconds"] = round(seconds, 3)
        event["time"] = world.date()
        add(event)
        session.add(event)

    while True:
        start = world.clock()
        step = decide.next_step(session, request._replace(seconds=end - start))
        if say:
            say(_told(step))
        if isinstance(step, Known):
            return session.tries[step.number - 1]
        if isinstance(step, Begin):
            done({"event": "tried", "try": len(session.tries) + 1, "key": request.key, "challenger": challenger,
                  "champion": len(session.champions) - 1})
            request = request._replace(again=False)
        elif isinstance(step, Recheck):
            event = world.recheck(step.rounds)
            done({"event": "rechecked", **event}, world.clock() - start)
        elif isinstance(step, Plan):
            event = world.plan(session.tries[step.number - 1].challenger)
            done({"event": "planned", "try": step.number, **event}, world.clock() - start)
        elif isinstance(step, Confirm):
            done({"event": "confirming", "try": step.number, "index": step.index, "rounds": step.rounds})
        elif isinstance(step, Measure):
            event = world.measure(session.tries[step.number - 1], step.phase, step.rounds)
            done({"event": "measured", "try": step.number, "phase": step.phase, "asked": step.rounds, **event},
                 world.clock() - start)
        else:
            done(answered(step))
            return session.tries[step.number - 1]


def _told(step: decide.Step) -> str:
    if isinstance(step, Plan):
        return "plan"
    if isinstance(step, Recheck):
        return "this is another machine: the champion and the first champion are measured here"
    if isinstance(step, Measure):
        name = "screening" if step.phase == "screen" else "confirmation"
        return f"{name}: {counted(step.rounds, 'round')}"
    if isinstance(step, Confirm):
        return f"it may be faster: confirmation {step.index} of the session, on fresh rounds"
    return ""
