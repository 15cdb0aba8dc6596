"""Curves over a setting, one panel for each column: {"x": the setting, "rounds": how rounds are combined,
"columns": [{"name", "title", "unit"}], "points": [{"line", "x", "y", "column", "text"}]}."""
import ticks
from parts import WIDTH, colour_by, dash_by, distinct, stacked, tooltip, where

WIDE_SPAN = 8  # ratio of largest to smallest from which an axis is logarithmic
MOST_TICKS = 10  # one tick at each measured point, up to this number

# Display units, by the unit of a column.
LABELS = {
    "seconds": "datum.value < 1 ? format(datum.value * 1000, ',.3~r') + ' ms' : format(datum.value, ',.3~r') + ' s'",
    "bytes": "datum.value == 0 ? '0' : datum.value < 1048576 ? format(datum.value / 1024, ',.3~r') + ' KiB' : "
             "datum.value < 1073741824 ? format(datum.value / 1048576, ',.3~r') + ' MiB' : "
             "format(datum.value / 1073741824, ',.3~r') + ' GiB'",
    "share": "format(datum.value, '.0%')",
}
OTHER_LABELS = "format(datum.value, datum.value < 1 ? '.3~g' : '.3~s')"


def _wide(low, high):
    return low > 0 and high / low >= WIDE_SPAN


def _y(column, values):
    """Scale and axis of a panel."""
    low, high = min(values), max(values)
    marks = None
    if _wide(low, high):
        marks = ticks.logarithmic_bytes(low, high) if column["unit"] == "bytes" else ticks.logarithmic(low, high)
        scale = {"type": "log", "domain": [marks[0], marks[-1]]}
    elif column["unit"] == "bytes":
        marks = ticks.linear_bytes(high)
        scale = {"domain": [0, marks[-1]]}
    else:
        # Starts at zero, except for losses, whose differences are small.
        scale = {"zero": column["unit"] != "loss", "nice": True}
    axis = {"labelExpr": LABELS.get(column["unit"], OTHER_LABELS)}
    axis.update({"values": marks} if marks else {"tickCount": 6})
    return {"field": "y", "type": "quantitative", "title": column["title"], "scale": scale, "axis": axis}


def _x(setting, points):
    measured = sorted({point["x"] for point in points})
    axis = {
        "format": ",d" if all(x == int(x) for x in measured) else "~g",
        "labelFlush": False,
        "labelOverlap": "greedy",
    }
    if len(measured) <= MOST_TICKS:
        axis["values"] = measured
    scale = {"zero": False, "nice": True}
    if _wide(measured[0], measured[-1]):
        scale = {"type": "log", "base": 2, "domain": [measured[0], measured[-1]]}
    return {"field": "x", "type": "quantitative", "title": setting, "scale": scale, "axis": axis}


def chart(report, data):
    points = data["points"]
    lines = distinct(point["line"] for point in points)
    x = _x(data["x"], points)
    panels = []
    for column in data["columns"]:
        told = tooltip(("line", "choice"), ("x", data["x"]), ("text", column["title"]))
        y = _y(column, [point["y"] for point in points if point["column"] == column["name"]])
        panels.append(
            {
                "width": WIDTH,
                "height": 220,
                "transform": where(f"datum.column === '{column['name']}'"),
                "mark": {"type": "line", "strokeWidth": 2, "point": {"size": 36}},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": colour_by("line", lines),
                    "strokeDash": dash_by("line", lines),
                    "tooltip": told,
                },
            }
        )
    return stacked(report, f"by {data['x']}", data["rounds"], points, panels)
