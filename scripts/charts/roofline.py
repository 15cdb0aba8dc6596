"""FLOP/s against FLOPs per byte, and the limit of the machine: {"points": [{"rung", "phase", "dtype", "x", "y",
"share"}],
"roofs": [{"dtype", "flops", "bandwidth"}]}. Colours and shapes tell the rungs apart."""

import ticks
from parts import NAME_WIDTH, WIDTH, colour_by, distinct, stacked, tooltip, where
from theme import MUTED

SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left"]


def _axis(field, title, marks):
    return {"field": field, "type": "quantitative", "title": title,
            "scale": {"type": "log", "domain": [marks[0], marks[-1]]},
            "axis": {"format": "~s", "values": marks, "labelFlush": False}}


def _ridge(roof):
    """FLOPs per byte from which on arithmetic is the limit."""
    return roof["flops"] / roof["bandwidth"]


def _roof_layer(roofs, axes):
    left, right = axes["x"]["scale"]["domain"]
    values = [{"roof": roof["dtype"], "x": x, "y": min(roof["flops"], x * roof["bandwidth"])}
              for roof in roofs for x in (left, _ridge(roof), right)]
    return {"data": {"values": values},
            "mark": {"type": "line", "color": MUTED, "strokeWidth": 1.5, "clip": True},
            "encoding": {**axes, "detail": {"field": "roof"}, "tooltip": tooltip(("roof", "limits of"))}}


def chart(report, data):
    points, roofs = data["points"], data["roofs"]
    xs = [point["x"] for point in points] + [_ridge(roof) for roof in roofs]
    speeds = [point["y"] for point in points]
    axes = {"x": _axis("x", "FLOPs per byte", ticks.logarithmic(min(xs), max(xs))),
            "y": _axis("y", "FLOP/s", ticks.logarithmic(min(speeds), max(speeds + [roof["flops"] for roof in roofs])))}
    names = distinct(point["rung"] for point in points)
    colour = colour_by("rung", names)
    colour["legend"] = {"title": None, "labelLimit": NAME_WIDTH, "symbolLimit": 60}
    shape = {**colour, "scale": {"domain": names, "range": [SHAPES[i % len(SHAPES)] for i in range(len(names))]}}
    told = [{"field": "rung"}, {"field": "phase"}, {"field": "share", "title": "of the limit"}]
    panels = [{"title": {"text": phase, "fontSize": 13, "offset": 16}, "width": WIDTH, "height": 260,
               "layer": [_roof_layer(roofs, axes),
                         {"transform": where(f"datum.phase === '{phase}'"),
                          "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                          "encoding": {**axes, "color": colour, "shape": shape, "tooltip": told}}]}
              for phase in ("forward", "backward") if any(point["phase"] == phase for point in points)]
    values = [{name: point[name] for name in ("rung", "phase", "x", "y", "share")} for point in points]
    return stacked(report, "roofline", "medians over rounds; the line is the limit of this machine", values, panels)
