"""Tokens a second of each rung, and its peak memory beside that: {"rows": [{"rung", "status", "label", and of those
that were measured "speed", "low", "high", "same_problem", "previous", "base" and "memory": {"bytes", "text"}}]}. A rung
that is not ok claims no speed, so it has no bar."""

from parts import legend_below, quantity, rung_axis, side_by_side, tooltip, where
from theme import BAD, PALETTE, TEXT
from ticks import byte_unit

SAME = "same problem as the base"
ANOTHER = "not like for like (†)"
STEP = 30  # pixels of a rung
SPEED_WIDTH, MEMORY_WIDTH = 430, 250
ROOM = 1.55  # of the axes over the longest bar, for the text behind it


def _value(row):
    value = {name: row[name] for name in ("rung", "status", "label")}
    if "speed" not in row:
        return {**value, "at": 0}
    numbers = {name: row[name] for name in ("speed", "low", "high", "previous", "base")}
    return {**value, **numbers, "at": row["high"], "problem": SAME if row["same_problem"] else ANOTHER}


def _axis(field, title, largest):
    axis = quantity(field, title)
    return {**axis, "scale": {"domain": [0, ROOM * largest], "nice": False}, "axis": {**axis["axis"], "tickCount": 4}}


def _speeds(rows, values):
    y = rung_axis(rows)
    measured = where("isValid(datum.speed)")
    several = any(not row.get("same_problem", True) for row in rows)
    colour = {"field": "problem", "type": "nominal",
              "scale": {"domain": [SAME, ANOTHER], "range": [PALETTE[0], PALETTE[4]]},
              "legend": legend_below() if several else None}
    largest = max([value["at"] for value in values] + [1])

    def x(field):
        return _axis(field, "tokens/s", largest)

    def end_of_whisker(field):
        return {"transform": measured, "mark": {"type": "tick", "size": 10, "thickness": 1.5, "color": TEXT},
                "encoding": {"y": y, "x": x(field)}}

    told = tooltip(("rung", "rung"), ("label", "tokens/s"), ("previous", "vs previous"), ("base", "vs base"))
    return {"width": SPEED_WIDTH, "height": {"step": STEP}, "data": {"values": values}, "layer": [
        {"transform": measured, "mark": {"type": "bar", "cornerRadiusEnd": 2},
         "encoding": {"y": y, "x": x("speed"), "color": colour, "tooltip": told}},
        {"transform": measured, "mark": {"type": "rule", "strokeWidth": 1.5, "color": TEXT},
         "encoding": {"y": y, "x": x("low"), "x2": {"field": "high"}}},
        end_of_whisker("low"),
        end_of_whisker("high"),
        {"mark": {"type": "text", "align": "left", "dx": 8},
         "encoding": {"y": y, "x": x("at"), "text": {"field": "label"},
                      "color": {"condition": {"test": "datum.status == 'ok'", "value": TEXT}, "value": BAD}}}]}


def _memory(rows):
    held = [row for row in rows if row.get("memory")]
    largest = max(row["memory"]["bytes"] for row in held)
    unit, name = byte_unit(largest)
    values = [
        {"rung": row["rung"], "size": row["memory"]["bytes"] / unit, "text": row["memory"]["text"]} for row in held
    ]
    axis = rung_axis(rows)
    y = {**axis, "axis": {**axis["axis"], "labels": False}, "scale": {"domain": [row["rung"] for row in rows]}}
    x = _axis("size", f"peak memory in {name}", largest / unit)
    return {"width": MEMORY_WIDTH, "height": {"step": STEP}, "data": {"values": values}, "layer": [
        {"mark": {"type": "bar", "cornerRadiusEnd": 2, "color": PALETTE[2]},
         "encoding": {"y": y, "x": x, "tooltip": tooltip(("rung", "rung"), ("text", "peak memory"))}},
        {"mark": {"type": "text", "align": "left", "dx": 6, "color": TEXT},
         "encoding": {"y": y, "x": x, "text": {"field": "text"}}}]}


def chart(report, data):
    rows = data["rows"]
    panels = [_speeds(rows, [_value(row) for row in rows])]
    if any(row.get("memory") for row in rows):
        panels.append(_memory(rows))
    return side_by_side(
        report,
        "speed and memory of each rung",
        "tokens/s: median over rounds, with whiskers from the slowest to the fastest round; x: relative to the base; "
        "%: from the rung before, as in the table",
        [],
        panels,
    )
