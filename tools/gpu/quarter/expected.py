"""What a step expects of its measurements, written before they exist: a range for each quantity."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Expected:
    low: float
    high: float
    unit: str = ""  # "x" for a ratio

    def text(self):
        if self.low == self.high:
            return shown(self.low, self.unit)
        if self.high == inf:
            return f"{shown(self.low, self.unit)} or more"
        return f"{shown(self.low, self.unit)} to {shown(self.high, self.unit)}"

    def verdict(self, measured):
        """ "met", "missed", or "" if nothing was measured."""
        if measured is None:
            return ""
        return "met" if self.low <= measured <= self.high else "missed"


def shown(number, unit=""):
    if unit == "x":
        return f"{number:.3f}".rstrip("0").ljust(4, "0") + "x"
    return f"{number:,.0f}" if abs(number) >= 100 or number == int(number) else f"{number:.3g}"


def between(low, high, unit=""):
    return Expected(low, high, unit)


def ratio(low, high):
    return Expected(low, high, "x")


def at_least(low):
    return Expected(low, inf)


def exactly(number):
    return Expected(number, number)


def about(number, share):
    """Within a share of the number on both sides."""
    return Expected(number * (1 - share), number * (1 + share))
