"""The ratio of two rows of a report in each round: of their speeds, as a report pairs them
(docs/internals/verdicts.md), and of their times to a loss (docs/internals/referee.md)."""
import math
import statistics
from typing import Any, Dict, List, NamedTuple, Optional

from ..report import Report

LEAD = 1.5  # a run that has trained this many times as long as the other one took to the loss is stopped
_ENOUGH = 3  # interleaved rounds, beside which the others would only add noise


def _runs(report: Report, variant: int) -> Dict[int, Dict[str, Any]]:
    """The measured runs of a row by their round."""
    return {run["spec"]["round"]: run["result"] for run in report.stored_runs
            if run["spec"]["variant"] == variant and run["spec"]["purpose"] == "measure"
            and run["result"]["status"] == "ok"}


def _speeds(result: Dict[str, Any]) -> Dict[int, float]:
    """The speed of each timed step. The mean of the tokens counts, because batches of documents differ."""
    steps = [step for step in result["steps"] if step["timed"] and step["tokens"] > 0 and step["seconds"] > 0]
    tokens = sum(step["tokens"] for step in steps) / max(1, len(steps))
    return {step["step"]: tokens / step["seconds"] for step in steps}


def _interleaved(subject: Optional[Dict[str, Any]], reference: Optional[Dict[str, Any]]) -> Optional[float]:
    """The median over the steps that two interleaved runs have in common."""
    if not subject or not reference or not subject.get("turns") or subject["turns"] != reference.get("turns"):
        return None
    mine, others = _speeds(subject), _speeds(reference)
    logs = [math.log(speed / others[step]) for step, speed in mine.items() if step in others]
    return statistics.median(logs) if logs else None


def log_ratios(report: Report, subject: Dict[str, Any], reference: Dict[str, Any]) -> List[float]:
    """The logarithm of the ratio of speeds in each round that both rows have."""
    runs, others = _runs(report, subject["variant"]), _runs(report, reference["variant"])
    samples = dict(zip(reference["rounds"], reference["samples"]))
    paired: List[float] = []
    alone: List[float] = []
    for number, sample in zip(subject["rounds"], subject["samples"]):
        if number not in samples:
            continue
        ratio = _interleaved(runs.get(number), others.get(number))
        if ratio is not None:
            paired.append(ratio)
        else:
            alone.append(math.log(sample / samples[number]))
    return paired if len(paired) >= _ENOUGH else paired + alone


class ToLoss(NamedTuple):
    """The logarithm of the ratio of the times to a loss in each round, champion / challenger. `ended_early`: rounds
    whose losing side was stopped. `unreached`: seeds with which neither side reached the loss."""
    logs: List[float]
    ended_early: int
    unreached: List[int]


def to_loss(subject: Dict[str, Any], reference: Dict[str, Any], margin: float) -> ToLoss:
    """Each logarithm is limited to log(LEAD) and, at the same distance below the margin, to 2 margin - log(LEAD). So a
    challenger whose logarithms are symmetric around the margin or less has a mean of at most the margin, and a run
    that was stopped has the logarithm that it would have had. A run that made all its steps without reaching the loss
    counts as if the challenger had lost by the limit, or won by no more than is known."""
    low, high = 2 * margin - math.log(LEAD), math.log(LEAD)
    others = {each["round"]: each for each in reference["seeds"]}
    logs: List[float] = []
    unreached: List[int] = []
    ended = 0
    for mine in subject["seeds"]:
        other = others.get(mine["round"])
        if other is None:
            continue
        mine_s, other_s = mine["seconds_to_loss"], other["seconds_to_loss"]
        if mine_s is None and other_s is None:
            unreached.append(mine["seed"])
            continue
        ratio = math.inf if mine_s is None else mine_s / (other_s or other["seconds"])
        late = None if mine_s is not None and other_s is not None else mine if mine_s is None else other
        ended += bool(late and late["seconds"] > LEAD * (other_s or mine_s))
        logs.append(max(low, min(high, -math.log(ratio))) if math.isfinite(ratio) else low)
    return ToLoss(logs, ended, unreached)
