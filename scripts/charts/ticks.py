"""Ticks of axes: round numbers around all that an axis shows."""
import math

MOST = 9  # more would overlap on an axis of 220 pixels


def _around(candidates, low, high):
    """The candidates (growing) around `low` and `high`."""
    last = len(candidates) - 1
    return [tick for i, tick in enumerate(candidates)
            if not (i < last and candidates[i + 1] <= low) and not (i > 0 and candidates[i - 1] >= high)]


def _powers(base, stride, low, high):
    """Every `stride`-th power of a base, from below `low` to above `high`."""
    def at(x):
        return math.log(x) / math.log(base) / stride
    exponents = range(math.floor(at(low)), math.ceil(at(high)) + 1)
    return _around([math.pow(base, i * stride) for i in exponents], low, high)


def logarithmic(low, high):
    """1, 2 and 5 times powers of ten. Over many decades only powers of ten, or every second one. 0 < low <= high."""
    ticks = _around([step * decade for decade in _powers(10, 1, low / 10, high) for step in (1, 2, 5)], low, high)
    stride = 0
    while len(ticks) > MOST:
        stride += 1
        ticks = _powers(10, stride, low, high)
    return ticks


def logarithmic_bytes(low, high):
    """Powers of two, which are round numbers of KiB, MiB and GiB."""
    stride = 1
    ticks = _powers(2, stride, low, high)
    while len(ticks) > MOST:
        stride += 1
        ticks = _powers(2, stride, low, high)
    return ticks


def linear_bytes(high):
    """From zero, in steps of a power of two."""
    step = 1
    while high / step > 6:
        step *= 2
    ticks = [0]
    while ticks[-1] < high:
        ticks.append(ticks[-1] + step)
    return ticks


def steps(first, last):
    """Round step numbers from `first` to `last`: every one, every 2nd, 5th, 10th, 20th."""
    stride, doubled = 1, 0
    while (last - first) / stride > 15:
        stride *= 2.5 if doubled % 3 == 1 else 2
        doubled += 1
    tick = math.ceil(first / stride) * stride
    ticks = []
    while tick <= last:
        ticks.append(tick)
        tick += stride
    return ticks


def byte_unit(largest):
    """The best unit for the largest size of a chart: its bytes and its name."""
    for size, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if largest >= size:
            return size, name
    return 1 << 10, "KiB"
