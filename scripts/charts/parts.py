"""What the charts share. `report` is {"experiment": its name, "rungs": their names, "note": what the picture leaves
out, if anything}; values are the rows of Vega-Lite's data."""

import theme
import ticks

NAME_WIDTH = 300  # pixels; longer names of rungs end in "…" in a chart, and the tables have them whole
WIDTH = 560  # pixels of the chart without the names
WIDER_FONT = 0.18  # margin for a reader's wider font
CHARACTER = 7  # pixels


def _frame(report, title, subtitle, values):
    longest = max((CHARACTER * len(name) for name in report["rungs"]), default=0)
    margin = 12 + int(WIDER_FONT * min(longest, NAME_WIDTH))  # space for the longest name in a wider font
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {
            "text": f"{report['experiment']}: {title}",
            "subtitle": [subtitle, report["note"]] if report.get("note") else subtitle,
        },
        "padding": {"left": margin, "right": margin, "top": 12, "bottom": 12},
        "data": {"values": values},
        "config": theme.CONFIG,
    }


def layered(report, title, subtitle, values, layers, height):
    return {**_frame(report, title, subtitle, values), "width": WIDTH, "height": height, "layer": layers}


def stacked(report, title, subtitle, values, panels):
    """Panels below each other."""
    return {**_frame(report, title, subtitle, values), "vconcat": panels}


def side_by_side(report, title, subtitle, values, panels):
    return {**_frame(report, title, subtitle, values), "hconcat": panels, "spacing": 28}


def rung_axis(rows):
    """The rungs from top to bottom."""
    return {"field": "rung", "type": "nominal", "sort": [row["rung"] for row in rows], "title": None,
            "axis": {"labelLimit": NAME_WIDTH, "domain": False, "ticks": False, "labelPadding": 8}}


def quantity(field, title):
    return {"field": field, "type": "quantitative", "title": title,
            "axis": {"labelFlush": False, "labelOverlap": "greedy", "labelSeparation": 16, "tickCount": 6}}


def loss_axis(field):
    return {"field": field, "type": "quantitative", "title": "loss", "scale": {"zero": False}}


def step_axis(values):
    """Steps from left to right, over those of `values` that have one."""
    steps = [value["step"] for value in values if "step" in value] or [0]
    first, last = min(steps), max(steps)
    return {"field": "step", "type": "quantitative", "title": "step",
            "scale": {"domain": [first, last], "nice": False, "padding": 8},
            "axis": {"values": ticks.steps(first, last), "format": ",d", "labelFlush": False}}


def tooltip(*fields):
    """Fields as (name, title) or (name, title, format)."""
    return [dict(zip(("field", "title", "format"), field)) for field in fields]


def where(test):
    return [{"filter": test}]


def target_line(target):
    """A dashed line across a chart of losses, with its name."""
    y = {"datum": target["loss"]}
    text = {
        "type": "text",
        "align": "left",
        "dx": 4,
        "dy": -7,
        "color": theme.MUTED,
        "text": f"target {target['text']}",
    }
    return {"data": {"values": [{}]},  # drawn once, not for each point of the curves
            "layer": [{"mark": {"type": "rule", "strokeDash": [6, 4], "color": theme.MUTED}, "encoding": {"y": y}},
                      {"mark": text, "encoding": {"y": y, "x": {"value": 0}}}]}


def legend_below():
    """A legend with entries side by side."""
    return {"title": None, "orient": "bottom", "columns": 5, "columnPadding": 34}


def _by(field, names, values):
    return {"field": field, "type": "nominal", "scale": {"domain": names, "range": values},
            "legend": {"title": None, "labelLimit": NAME_WIDTH, "symbolType": "stroke", "symbolStrokeWidth": 2.5,
                       "symbolSize": 260, "symbolLimit": 60}}


def colour_by(field, names):
    """Distinguishes the lines of a chart by colour, together with dash_by()."""
    return _by(field, names, [theme.PALETTE[i % len(theme.PALETTE)] for i in range(len(names))])


def dash_by(field, names):
    """Uses dashes if colours are repeated."""
    dashes = [[1, 0], [5, 3], [2, 2], [8, 3, 2, 3]]
    return _by(field, names, [dashes[i // len(theme.PALETTE) % len(dashes)] for i in range(len(names))])


def strips(field, names, layers):
    """A panel for each name, one below the other, so that lines do not overlap. Each strip has `layers`."""
    header = {"labelAngle": 0, "labelAlign": "left", "labelPadding": 24, "labelLimit": NAME_WIDTH}
    return {"facet": {"row": {"field": field, "type": "nominal", "sort": names, "title": None, "header": header}},
            "spacing": 16,
            "spec": {"width": WIDTH, "height": 40, "layer": layers}}


def distinct(values):
    """Each value once, in the order of first use."""
    return list(dict.fromkeys(values))
