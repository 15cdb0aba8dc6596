"""Tokens a second over ranks: {"series": [{"title", "points": [{"ranks", "growth", "speedup", "low", "high", "rung",
"text",
"efficiency"}]}]}; "low" and "high" of a speedup with an interval."""

from parts import colour_by, layered, tooltip, where
from theme import MUTED


def _place(index, count, ranks):
    """Offsets series so that their intervals don't overlap."""
    apart = 0.02  # of a doubling
    return ranks * 2 ** (apart * (index - (count - 1) / 2))


def _values(series):
    for i, line in enumerate(series):
        for point in line["points"]:
            value = {name: point[name] for name in ("ranks", "speedup", "rung", "text", "efficiency", "low", "high")
                     if name in point}
            yield {"series": line["title"], "place": _place(i, len(series), point["ranks"]), **value}


def _ideal(series):
    """The factor of additional hardware from the fewest ranks on. All series that start with this number of ranks share
    a line."""
    lines = {}
    for line in series:
        growths = lines.setdefault(line["points"][0]["ranks"], {})
        for point in line["points"]:
            growths[point["ranks"]] = max(growths.get(point["ranks"], 0), point["growth"])
    return [{"line": fewest, "place": ranks, "speedup": growth}
            for fewest, growths in sorted(lines.items()) for ranks, growth in sorted(growths.items())]


def _speed_ticks(values):
    """Powers of two around every speedup and the ends of its interval."""
    speeds = [1, *(value[field] for value in values for field in ("speedup", "low", "high") if field in value)]
    ticks = [1]
    while ticks[0] > min(speeds):
        ticks[0] /= 2
    while ticks[-1] < max(speeds):
        ticks.append(ticks[-1] * 2)
    return ticks


def chart(report, data):
    series = data["series"]
    values, ideal = list(_values(series)), _ideal(series)
    ticks = _speed_ticks(values + ideal)
    x = {"field": "place", "type": "quantitative", "title": "ranks",
         "scale": {"type": "log", "base": 2, "nice": False, "padding": 24},
         "axis": {"values": sorted({value["ranks"] for value in values}), "format": "d"}}

    def y(field):
        return {"field": field, "type": "quantitative", "title": "speedup in tokens/s",
                "scale": {"type": "log", "base": 2, "nice": False, "domain": [ticks[0], ticks[-1]]},
                "axis": {"values": ticks, "labelExpr": "datum.value + 'x'"}}

    colour = colour_by("series", [line["title"] for line in series])
    colour["legend"].update({"orient": "bottom", "columns": 1})
    told = tooltip(("series", "series"), ("rung", "rung"), ("ranks", "ranks"), ("text", "speedup"),
                   ("efficiency", "efficiency"))
    layers = [
        {"data": {"values": ideal}, "mark": {"type": "line", "strokeDash": [5, 4], "strokeWidth": 1.5, "color": MUTED},
         "encoding": {"x": x, "y": y("speedup"), "detail": {"field": "line"}}},
        {"transform": where("isValid(datum.low)"), "mark": {"type": "rule", "strokeWidth": 1.5},
         "encoding": {"x": x, "y": y("low"), "y2": {"field": "high"}, "color": colour}},
        {"mark": {"type": "line", "strokeWidth": 2, "point": {"size": 44}},
         "encoding": {"x": x, "y": y("speedup"), "color": colour, "tooltip": told}}]
    return layered(report, "tokens/s by ranks",
                   "relative to the fewest ranks; dashed: ideal scaling; bars: intervals", values,
                   layers, 340)
