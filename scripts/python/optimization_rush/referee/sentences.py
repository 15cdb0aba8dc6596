"""The answers for readers, and as JSON."""
import math
from typing import Any, Dict, List, Optional

from .session import Session, Try
from .statistics import Estimate

GATES = {"build": "its source does not build", "plan": "its plan fails", "memory": "it does not fit into memory",
         "run": "it does not train to its end", "gate": "its training is not correct", "task": "it is another task"}


def ratio(value: float, low: Optional[float], high: Optional[float]) -> str:
    """From logarithms: 1.031x [1.012, 1.050]."""
    text = f"{math.exp(value):.3f}x"
    return text if low is None or high is None else f"{text} [{math.exp(low):.3f}, {math.exp(high):.3f}]"


def ratio_of(estimate: Estimate) -> str:
    few = not math.isfinite(estimate.error)
    return ratio(estimate.mean, None if few else estimate.low(0.025), None if few else estimate.high(0.025))


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def percent(value: float) -> str:
    return f"{100 * value:g} %"


def unit(session: Session) -> str:
    """Behind a ratio: what it is a ratio of."""
    return f" to a loss of {session.settings.target_loss:g}" if session.settings.target_loss else ""


def _exchange(attempt: Try) -> str:
    """With a target loss, the speed for which time is exchanged: "1.170x tokens/s, "."""
    return f"{math.exp(attempt.tokens.mean):.3f}x tokens/s, " if attempt.tokens else ""


def _need(event: Dict[str, Any]) -> str:
    rounds, seconds = event.get("more_rounds"), event.get("more_seconds")
    if rounds is None:
        return "More rounds than are practical would decide."
    time = f", {duration(seconds)}," if seconds is not None else ""
    return f"About {counted(rounds, 'more round')}{time} would decide. The same command continues."


def sentence(session: Session, attempt: Try) -> str:
    """The answer in one or two sentences."""
    event, name = attempt.answer, f"'{attempt.name}'"
    if event is None:
        return f"{name} has no answer yet. The same command continues."
    answer = event["answer"]
    if answer == "broken":
        problem = attempt.problem or {}
        return f"{name} is broken, because {GATES[problem['by']]}: {problem['text']}"
    measured = ""
    if "speed" in event:
        value, _, interval = ratio(event["speed"], event["low"], event["high"]).partition(" ")
        measured = _exchange(attempt) + value + unit(session) + (" " + interval if interval else "")
    rounds = counted(event.get("rounds", 0), "seed" if session.settings.target_loss else "round")
    if answer == "undecided":
        return (f"{name} is undecided: {measured} after {rounds}. " if measured else
                f"{name} is not measured: there is too little time. ") + _need(event)
    if answer == "faster":
        least = f"{math.exp(event['at_least']):.3f}x{unit(session)}"
        return (f"{name} is faster: {measured} in {rounds} that were not seen when it was chosen. It is the champion "
                f"now. With the error of the whole session it is at least {least}.")
    if answer == "slower":
        return f"{name} is slower: {measured} in {rounds}."
    return f"{name} is equal: {measured} in {rounds}, so a gain of {percent(session.settings.gain)} is excluded."


def _as_json(estimate: Optional[Estimate]) -> Optional[Dict[str, Any]]:
    if estimate is None:
        return None
    few = not math.isfinite(estimate.error)
    return {"value": math.exp(estimate.mean), "rounds": estimate.rounds,
            "interval": None if few else [math.exp(estimate.low(0.025)), math.exp(estimate.high(0.025))]}


def as_json(session: Session, attempt: Try) -> Dict[str, Any]:
    """The answer for programs."""
    event = attempt.answer or {}
    estimate: Optional[Dict[str, Any]] = None
    if "speed" in event:
        low, high = event["low"], event["high"]
        estimate = {"value": math.exp(event["speed"]), "rounds": event["rounds"],
                    "interval": None if low is None else [math.exp(low), math.exp(high)]}
    return {
        "try": attempt.number, "challenger": attempt.challenger["text"], "name": attempt.name,
        "answer": event.get("answer"), "sentence": sentence(session, attempt),
        "speed": _as_json(attempt.tokens) if session.settings.target_loss else estimate,
        **({"to_loss": {**estimate, "loss": session.settings.target_loss, "ended_early": attempt.ended_early}
            if estimate else None} if session.settings.target_loss else {}),
        "at_least": math.exp(event["at_least"]) if "at_least" in event else None,
        "total": math.exp(attempt.total.mean) if attempt.total else None,
        "broken_by": attempt.problem if event.get("answer") == "broken" else None,
        "would_decide": {"rounds": event["more_rounds"], "seconds": event["more_seconds"]}
        if event.get("answer") == "undecided" else None,
        "cost": {"seconds": round(sum(attempt.seconds.values()), 1), "rounds": attempt.rounds,
                 "steps": {step: round(seconds, 1) for step, seconds in attempt.seconds.items() if seconds}},
        "confirmation": attempt.confirmation.index if attempt.confirmation else None,
        "reports": attempt.reports,
    }


def total(session: Session) -> Optional[Estimate]:
    """The ratio of the champion to the first champion, from its confirmation."""
    by = session.champion.by
    if by is None:
        return None
    return session.tries[by - 1].whole


def status(session: Session) -> Dict[str, Any]:
    counts: Dict[str, int] = {}
    for attempt in session.tries:
        answer = attempt.answer["answer"] if attempt.answer else "unfinished"
        counts[answer] = counts.get(answer, 0) + 1
    whole = total(session)
    spent = session.settings.alpha * (1 - 1 / (session.confirmations + 1))
    return {
        "begun": session.begun, "champion": session.champion.name,
        "kept": [each.name for each in session.champions[1:]],
        "by": "time-to-loss" if session.settings.target_loss else "speed",
        **({"target_loss": session.settings.target_loss} if session.settings.target_loss else {}),
        "to_loss" if session.settings.target_loss else "speed":
            {"value": math.exp(whole.mean), "interval": [math.exp(whole.low(0.025)), math.exp(whole.high(0.025))]}
            if whole else None,
        "tries": len(session.tries), "answers": counts, "confirmations": session.confirmations,
        "error": {"allowed": session.settings.alpha, "spent": spent},
        "gain": session.settings.gain, "machines": session.machines,
        "seconds": round(seconds_of(session), 1),
    }


def seconds_of(session: Session) -> float:
    return sum(sum(each.seconds.values()) for each in session.tries) + sum(each.get("seconds", 0.0)
                                                                          for each in session.rechecks)


def status_lines(session: Session) -> List[str]:
    state, whole = status(session), total(session)
    counts = ", ".join(f"{count} {answer}" for answer, count in sorted(state["answers"].items()))
    lines = [f"{state['tries']} tries in {duration(state['seconds'])}" + (f": {counts}" if counts else "")]
    if whole:
        lines.append(f"champion: {' + '.join([session.champions[0].name, *state['kept']])}, {ratio_of(whole)} of the "
                     f"first champion{unit(session)}")
    else:
        lines.append(f"champion: {session.champion.name}, as at the start")
    lines.append(f"error of the session: {percent(state['error']['allowed'])} allowed, "
                 f"{percent(round(state['error']['spent'], 5))} spent by {state['confirmations']} confirmations")
    for attempt in session.tries:
        if attempt.answer is None:
            lines.append(f"without an answer: {attempt.challenger['text']}")
    return lines
