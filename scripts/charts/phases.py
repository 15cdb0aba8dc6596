"""Where the time of a step goes: {"rungs": [{"rung", "phases": [{"name", "seconds", "text"}]}]}. A bar for each rung,
its phases beside each other in the order of a step."""

from parts import distinct, layered, legend_below, quantity, rung_axis, tooltip
from theme import PALETTE

MILLISECONDS = 1e3


def chart(report, data):
    rungs = data["rungs"]
    names = distinct(phase["name"] for rung in rungs for phase in rung["phases"])
    longest = max(sum(phase["seconds"] for phase in rung["phases"]) for rung in rungs)
    unit, factor = ("s", 1) if longest >= 1 else ("ms", MILLISECONDS)
    values = [{"rung": rung["rung"], "phase": phase["name"], "order": names.index(phase["name"]),
               "time": phase["seconds"] * factor, "text": phase["text"]} for rung in rungs for phase in rung["phases"]]
    bars = {
        "mark": {"type": "bar"},
        "encoding": {
            "y": rung_axis(rungs),
            "x": quantity("time", f"{unit} of a step"),
            "order": {"field": "order"},
            "color": {
                "field": "phase",
                "type": "nominal",
                "scale": {"domain": names, "range": [PALETTE[i % len(PALETTE)] for i in range(len(names))]},
                "legend": legend_below(),
            },
            "tooltip": tooltip(("rung", "rung"), ("phase", "phase"), ("text", "time")),
        },
    }
    return layered(report, "phases of a step", "median time of each phase", values, [bars], {"step": 26})
