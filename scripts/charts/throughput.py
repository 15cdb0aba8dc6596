"""Tokens a second of each timed step: {"rungs": [{"rung", "steps": [[step, tokens a second]]}], "round": their
round}. A strip for each rung:
lines over each other show nothing where steps differ by more than rungs do."""

from parts import stacked, step_axis, strips, tooltip
from theme import MUTED, PALETTE


def chart(report, data):
    values = [
        {"rung": rung["rung"], "step": step, "value": value} for rung in data["rungs"] for step, value in rung["steps"]
    ]
    y = {"field": "value", "type": "quantitative", "title": None, "scale": {"zero": True},
         "axis": {"tickCount": 2, "labelExpr": "datum.value == 0 ? '0' : format(datum.value, '~s')"}}
    told = tooltip(("rung", "rung"), ("step", "step"), ("value", "tokens/s", ",.6~g"))
    layers = [
        {
            "mark": {"type": "rule", "strokeDash": [4, 3], "color": MUTED},
            "encoding": {"y": {**y, "aggregate": "median"}},
        },
        {
            "mark": {"type": "line", "strokeWidth": 1.5, "color": PALETTE[0], "point": {"size": 18}},
            "encoding": {"x": step_axis(values), "y": y, "tooltip": told},
        },
    ]
    panel = {**strips("rung", [rung["rung"] for rung in data["rungs"]], layers),
             "resolve": {"scale": {"y": "independent"}}}  # rungs may be orders of magnitude apart
    return stacked(report, "tokens/s of each step",
                   f"timed steps of the {data['round']}; each rung has a separate scale; dashed: median", values,
                   [panel])
