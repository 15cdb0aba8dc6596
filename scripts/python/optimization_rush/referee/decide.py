"""The next step of a session: a pure function of its state and the request.

A challenger is planned, screened and confirmed. Screening looks at open rounds, and only orders the work. A
confirmation looks at fresh rounds. Look j of confirmation k spends alpha / (k (k + 1) j (j + 1)) of the error, so all
looks of all confirmations together spend at most alpha.
"""
import math
from typing import NamedTuple, Optional, Union

from .session import Confirmation, Session, Settings, Try
from .statistics import Estimate

DROP = 0.01     # error of the bound that ends a try as equal or slower
PROMISE = 0.05  # error of the bound that begins a confirmation
FIRST_LOOKS = (6, 8, 12, 16, 24, 32, 48, 64, 96)
LONG_ROUND = 60.0  # seconds; such a challenger begins with a single round
MOST_ROUNDS = 10_000


class Request(NamedTuple):
    """`seconds`: the time that is left. `again`: begin anew although there is an answer."""
    key: str
    seconds: float = math.inf
    again: bool = False


class Begin(NamedTuple):
    pass


class Recheck(NamedTuple):
    """Measures the champion and the first champion on another machine."""
    rounds: int


class Plan(NamedTuple):
    number: int


class Measure(NamedTuple):
    """`rounds`: all rounds of the phase, together with the ones that are measured."""
    number: int
    phase: str  # screen or confirm
    rounds: int


class Confirm(NamedTuple):
    number: int
    index: int
    rounds: int


class Known(NamedTuple):
    """The challenger has an answer; nothing is done."""
    number: int


class Need(NamedTuple):
    """What would decide, at the present mean and spread."""
    rounds: Optional[int]  # None: more than is practical
    seconds: Optional[float]


class Answer(NamedTuple):
    number: int
    answer: str  # faster, equal, slower, undecided, broken
    estimate: Optional[Estimate] = None
    at_least: Optional[float] = None  # of a kept challenger: the lower bound at the error that its look spends
    need: Optional[Need] = None


Step = Union[Begin, Recheck, Plan, Measure, Confirm, Known, Answer]


def margin(settings: Settings) -> float:
    """A kept challenger is faster by at least this logarithm. It is above the bias of places in a round."""
    return math.log1p(settings.gain / 4)


def spent(settings: Settings, index: int, look: int) -> float:
    """The error that a look of a confirmation spends, both counted from 1."""
    return settings.alpha / (index * (index + 1) * look * (look + 1))


def _excluded(estimate: Estimate, settings: Settings) -> Optional[str]:
    """equal or slower: the estimate excludes a gain that matters."""
    high = estimate.high(DROP)
    if high >= math.log1p(settings.gain):
        return None
    return "slower" if high < 0 else "equal"


def first_look(estimate: Estimate, settings: Settings, index: int) -> int:
    """Rounds after which a confirmation would probably keep the challenger. It depends on the screening alone."""
    for rounds in FIRST_LOOKS:
        fresh = estimate.with_rounds(rounds)
        if fresh.low(spent(settings, index, 1)) - fresh.error > margin(settings):
            return rounds
    return FIRST_LOOKS[-1]


def next_step(session: Session, request: Request) -> Step:
    if session.recheck_due:
        return Recheck(6)
    kept = session.kept(request.key)
    if kept and not request.again:
        return Known(kept.number)
    attempt = session.latest(request.key)
    if attempt is None:
        return Begin()
    if attempt.answer and attempt.answer["answer"] != "undecided":
        return Begin() if request.again else Known(attempt.number)
    if attempt.problem:
        return Answer(attempt.number, "broken")
    if attempt.planned is None:
        return Plan(attempt.number)
    if attempt.confirmation:
        return _confirming(session, attempt, attempt.confirmation, request)
    return _screening(session, attempt, request)


def _screening(session: Session, attempt: Try, request: Request) -> Step:
    settings, estimate = session.settings, attempt.screen
    if estimate is None:
        # The last round may have been slow because the machine was loaded. A first round tells how long one is now.
        per_round = session.seconds_per_round or 0.0
        long = per_round > LONG_ROUND or 3 * per_round > request.seconds
        return _measured_or_undecided(session, attempt, "screen", 1 if long else 3, request)
    if answer := _excluded(estimate, settings):
        return Answer(attempt.number, answer, estimate)
    if estimate.low(PROMISE) > margin(settings):
        index = session.confirmations + 1
        return Confirm(attempt.number, index, first_look(estimate, settings, index))
    return _measured_or_undecided(session, attempt, "screen", max(3, 2 * attempt.asked), request)


def _confirming(session: Session, attempt: Try, confirmation: Confirmation, request: Request) -> Step:
    settings, estimate = session.settings, confirmation.estimate
    if estimate:
        at_least = estimate.low(spent(settings, confirmation.index, confirmation.looks))
        if at_least > margin(settings):
            return Answer(attempt.number, "faster", estimate, at_least)
        if answer := _excluded(estimate, settings):
            return Answer(attempt.number, answer, estimate)
    return _measured_or_undecided(session, attempt, "confirm", confirmation.rounds_at(confirmation.looks + 1), request)


def _measured_or_undecided(session: Session, attempt: Try, phase: str, rounds: int, request: Request) -> Step:
    estimate = attempt.confirmation.estimate if attempt.confirmation else attempt.screen
    per_round = attempt.seconds_per_round or session.seconds_per_round or 0.0
    missing = rounds - (estimate.rounds if estimate else 0)
    if missing * per_round <= request.seconds and rounds <= MOST_ROUNDS:
        return Measure(attempt.number, phase, rounds)
    need = _need(session, attempt, rounds)
    seconds = need * per_round if need is not None and per_round else None
    return Answer(attempt.number, "undecided", estimate or attempt.screen, None, Need(need, seconds))


def _need(session: Session, attempt: Try, next_look: int) -> Optional[int]:
    """The further rounds until an answer, at the present mean and spread."""
    settings, confirmation = session.settings, attempt.confirmation
    estimate = confirmation.estimate if confirmation else attempt.screen
    if estimate is None or not math.isfinite(estimate.error):
        return next_look
    look = confirmation.looks + 1 if confirmation else 1
    index = confirmation.index if confirmation else session.confirmations + 1
    while next_look <= MOST_ROUNDS:
        later = estimate.with_rounds(next_look)
        if _excluded(later, settings):
            return next_look - estimate.rounds
        if confirmation and later.low(spent(settings, index, look)) > margin(settings):
            return next_look - estimate.rounds
        if not confirmation and later.low(PROMISE) > margin(settings):
            return next_look - estimate.rounds + first_look(later, settings, index)
        next_look, look = 2 * next_look, look + 1
    return None
