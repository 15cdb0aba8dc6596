"""The ratio of two rows of a report in each round, as a report pairs them (docs/internals/verdicts.md)."""
import math
import statistics
from typing import Any, Dict, List, Optional

from ..report import Report

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
