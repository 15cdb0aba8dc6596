"""Tokens a second of each rung: {"rows": [{"rung", "status", "label", and of those that were measured "speed", "low", "high",
"same_problem", "previous", "base"}]}. A rung that is not ok claims no speed, so it has no bar."""
from parts import layered, legend_below, quantity, rung_axis, tooltip, where
from theme import BAD, PALETTE, TEXT

SAME = "same problem as the base"
ANOTHER = "not like for like (†)"


def _value(row):
    value = {name: row[name] for name in ("rung", "status", "label")}
    if "speed" not in row:
        return {**value, "at": 0}
    numbers = {name: row[name] for name in ("speed", "low", "high", "previous", "base")}
    return {**value, **numbers, "at": row["high"], "problem": SAME if row["same_problem"] else ANOTHER}


def chart(report, data):
    values = [_value(row) for row in data["rows"]]
    y = rung_axis(data["rows"])
    measured = where("isValid(datum.speed)")
    several = any(not row.get("same_problem", True) for row in data["rows"])
    colour = {"field": "problem", "type": "nominal",
              "scale": {"domain": [SAME, ANOTHER], "range": [PALETTE[0], PALETTE[4]]},
              "legend": legend_below() if several else None}

    def x(field):
        return quantity(field, "tokens/s")

    def end_of_whisker(field):
        return {"transform": measured, "mark": {"type": "tick", "size": 10, "thickness": 1.5, "color": TEXT},
                "encoding": {"y": y, "x": x(field)}}

    told = tooltip(("rung", "rung"), ("label", "tokens/s"), ("previous", "vs previous"), ("base", "vs base"))
    layers = [
        {"transform": measured, "mark": {"type": "bar", "cornerRadiusEnd": 2},
         "encoding": {"y": y, "x": x("speed"), "color": colour, "tooltip": told}},
        {"transform": measured, "mark": {"type": "rule", "strokeWidth": 1.5, "color": TEXT},
         "encoding": {"y": y, "x": x("low"), "x2": {"field": "high"}}},
        end_of_whisker("low"),
        end_of_whisker("high"),
        {"mark": {"type": "text", "align": "left", "dx": 8},
         "encoding": {"y": y, "x": x("at"), "text": {"field": "label"},
                      "color": {"condition": {"test": "datum.status == 'ok'", "value": TEXT}, "value": BAD}}}]
    return layered(report, "tokens/s of each rung",
                   "bars: median over rounds; whiskers: slowest and fastest round; x: over the base, round by round",
                   values, layers, {"step": 30})
