"""Student's t, and a measured ratio of speeds."""
import functools
import math
from typing import Any, Mapping, NamedTuple, Optional, Sequence

LEAST_SPREAD = 0.0004  # of a logarithm from round to round; equal times are chance or a coarse clock


def _continued_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 400):
        for term in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                     -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 + term * d
            c = 1 + term / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value


def _incomplete_beta(a: float, b: float, x: float) -> float:
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(a, b, x) / a
    return 1 - front * _continued_fraction(b, a, 1 - x) / b


def t_tail(degrees: float, t: float) -> float:
    """The probability that Student's t is above t >= 0."""
    return _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2


@functools.lru_cache(maxsize=None)
def t_quantile(degrees: int, tail: float) -> float:
    """The value that Student's t exceeds with the probability `tail`, below 0.5."""
    low, high = 0.0, 1.0
    while t_tail(degrees, high) > tail:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(degrees, middle) > tail else (low, middle)
    return high


class Estimate(NamedTuple):
    """The logarithm of a ratio of speeds: mean over rounds and standard error (infinite below three rounds)."""
    rounds: int
    mean: float
    error: float

    @classmethod
    def of_event(cls, event: Mapping[str, Any]) -> "Estimate":
        error = event["error"]
        return cls(event["rounds"], event["mean"], math.inf if error is None else error)

    @classmethod
    def of_logs(cls, logs: Sequence[float]) -> "Estimate":
        """From the logarithm of each round's ratio."""
        rounds = len(logs)
        mean = sum(logs) / rounds
        if rounds < 3:
            return cls(rounds, mean, math.inf)
        variance = sum((each - mean)**2 for each in logs) / (rounds - 1)
        return cls(rounds, mean, max(math.sqrt(variance), LEAST_SPREAD) / math.sqrt(rounds))

    def as_event(self) -> Mapping[str, Any]:
        return {"rounds": self.rounds, "mean": self.mean, "error": self.error if math.isfinite(self.error) else None}

    def low(self, tail: float) -> float:
        """One-sided lower bound of the logarithm at the error `tail`."""
        return self.mean - self._half(tail)

    def high(self, tail: float) -> float:
        return self.mean + self._half(tail)

    def after(self, before: "Optional[Estimate]") -> "Estimate":
        """The product of this ratio and an independent one before it."""
        if before is None:
            return self
        return Estimate(min(self.rounds, before.rounds), self.mean + before.mean, math.hypot(self.error, before.error))

    def with_rounds(self, rounds: int) -> "Estimate":
        """The same mean and spread after another number of rounds."""
        return Estimate(rounds, self.mean, self.error * math.sqrt(self.rounds / rounds))

    def _half(self, tail: float) -> float:
        if not math.isfinite(self.error) or self.rounds < 2:
            return math.inf
        return t_quantile(self.rounds - 1, tail) * self.error
