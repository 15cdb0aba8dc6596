"""`optimizer_in_backward` with `stream = "side"` on the stand-in: the same work as on one stream, and in a right order.

Each update is on the second stream, behind the work that computes its gradient and reads its parameter. Before a step
ends, the computing stream waits for the last update. Memory and launches are as planned."""
import tempfile
from collections import Counter
from pathlib import Path

from compiled_parts import plans_of, results_of, traces_by_rung
from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

STEPS = 4
IN_FLIGHT = 8  # gradients that are kept for updates, as in updates_beside.h
OF_THE_BATCH = 3  # launches that move a micro-batch to the device; a plan leaves them out
BLOCK = 2 << 20  # bytes; the caching allocator's block for small tensors
SEGMENT = 20 << 20  # bytes; the caching allocator's segment for larger ones
MICRO_BATCHES = {"muon": 2}
# A kernel that each update of a parameter has, or one of them, and no other part of a step.
UPDATES = {"adamw": ("addcdiv",), "fused": ("FusedAdam",), "bf16": ("update<",), "recomputed": ("update<",),
           "rounded": ("FusedAdam",), "narrow": ("update<", "FusedAdam"), "muon": ("addcdiv", "k256 fp32")}


def steps_of(trace):
    """The lines of each step, from its first time to the time at its end."""
    lines = trace.splitlines()
    marks = [number for number, line in enumerate(lines) if line == "time"]
    each = len(marks) // STEPS
    assert each * STEPS == len(marks), marks
    return [lines[marks[step * each]:marks[(step + 1) * each - 1]] for step in range(STEPS)]


def is_work(line):
    return line.startswith(("launch ", "call ", "copy ", "memset "))


class Step:
    """The work of a step by stream, and the places of the events between streams."""

    def __init__(self, lines, computing="0"):
        self.lines, self.work, self.places = lines, {}, {}
        stream = computing  # a step begins with the computing stream's work
        self.orders = [(number, *line.split()[2::3]) for number, line in enumerate(lines) if line.startswith("order ")]
        for number, line in enumerate(lines):
            if line.startswith("stream "):
                stream = line.split()[1]
            elif is_work(line):
                self.work.setdefault(stream, Counter())[line] += 1
                self.places.setdefault(stream, []).append(number)

    def places_of(self, stream, after):
        """Where the stream begins to wait for the other one."""
        return [number for number, waits, until in self.orders if (waits, until) == (stream, after)]


def has(line, words):
    return any(word in line for word in words)


def updates_are_ordered(kind, step):
    (computing, side), names = sorted(step.work), UPDATES[kind]
    assert computing == "0", step.work.keys()
    first, last = step.places[side][0], step.places[side][-1]
    assert not any(has(line, names[:1]) for line in step.work[computing]), kind
    begins, joins = step.places_of(side, computing), step.places_of(computing, side)
    # A gradient is freed after the computing stream has waited for its update, and the step ends after all of them.
    assert len(joins) == len(begins) - IN_FLIGHT + 1 > 20 and joins[-1] > last, (kind, joins, begins, last)
    assert all(any(has(line, names) for line in step.lines[at:until])
               for at, until in zip(begins, [*begins[1:], joins[-1]])), kind
    for place in step.places[side]:
        # Everything that the computing stream had is done before: gradients, and products that read the parameter.
        begun = max(at for at in begins if at < place)
        assert not any(begun < at < place for at in step.places[computing]), (kind, step.lines[begun:place + 1])
    # The backward goes on between the updates.
    assert len([at for at in step.places[computing] if first < at < last]) > 100, kind
    return len(begins)


def main(folder):
    done = on_stand_in(folder / "counts", OPTRUSH, "run", HERE / "beside.lua", "--out", folder,
                       trace=folder / "trace.%p")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_no_faults(folder / "counts")
    report = folder / "beside/local"
    results = results_of(report)
    plans = plans_of(report)
    traces = traces_by_rung(folder)
    for kind in UPDATES:
        one, two = ([Step(lines) for lines in steps_of(traces[f"{kind}-{stream}"])] for stream in ("compute", "side"))
        assert all(step.work.keys() == {"0"} and not step.orders for step in one), kind
        updated = {updates_are_ordered(kind, step) for step in two}
        assert len(updated) == 1, (kind, updated)
        for before, beside in zip(one[1:], two[1:]):  # the first step makes tables
            both = sum(beside.work.values(), Counter())
            assert both == before.work["0"], (kind, both - before.work["0"], before.work["0"] - both)
        names = [f"{kind} + {stream}" for stream in ("compute", "side")]
        for name in names:
            planned, counted = (of[name]["costs"]["total"]["launches"] for of in (plans, results))
            most = OF_THE_BATCH * MICRO_BATCHES.get(kind, 1)
            assert planned <= counted <= planned + most, (name, planned, counted)
            assert results[name]["costs"]["total"]["host_waits"] == 0, name
            memory, measured = plans[name]["memory"], results[name]["memory"]
            assert abs(memory["peak_bytes"] - measured["peak_allocated"]) <= BLOCK, (name, memory, measured)
            apart = memory["reserved_bytes"] - measured["peak_reserved"]
            assert abs(apart) <= SEGMENT + BLOCK, (name, memory, measured)
        reserved = [results[name]["memory"]["peak_reserved"] >> 20 for name in names]
        print(f"{kind}: {updated.pop()} updates on the second stream; {reserved[1]} instead of {reserved[0]} MiB",
              flush=True)


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
