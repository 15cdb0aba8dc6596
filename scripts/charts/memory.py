"""Peak memory of each rung: {"rows": [{"rung", "label", "allocated", "predicted", "parts": {name: amount}}]}. An amount
is {"bytes", "text"}, or null if it is not known."""

from parts import layered, legend_below, quantity, rung_axis, tooltip
from theme import PALETTE, TEXT
from ticks import byte_unit

PARTS = {"parameters": "parameters", "gradients": "gradients", "optimizer_state": "optimizer state",
         "activations": "activations"}
MEASURED = "measured peak"
PARTED = "parts"


def _bars(rows, unit):
    for row in rows:
        amounts = [(MEASURED, MEASURED, 0, row["allocated"])]
        amounts += [(PARTED, title, list(PARTS).index(part) + 1, row["parts"][part])
                    for part, title in PARTS.items() if part in row["parts"]]
        for bar, part, order, amount in amounts:
            if amount:
                yield {"rung": row["rung"], "bar": bar, "part": part, "order": order, "size": amount["bytes"] / unit,
                       "text": amount["text"]}


def _label(row, unit):
    """The text beside the measured bar: its size, and the error of the prediction."""
    end = max(amount["bytes"] for amount in (row["allocated"], row["predicted"]) if amount)
    return {"rung": row["rung"], "bar": MEASURED, "size": end / unit, "label": row["label"]}


def chart(report, data):
    rows = data["rows"]
    measured = [row for row in rows if row["allocated"]]
    largest = max([row["allocated"]["bytes"] for row in measured]
                  + [row["parts"]["total"]["bytes"] for row in rows if row["parts"].get("total")])
    unit, name = byte_unit(largest)
    place = {"y": rung_axis(rows), "yOffset": {"field": "bar", "sort": [MEASURED, PARTED]},
             "x": quantity("size", f"peak memory in {name}")}
    colour = {"field": "part", "type": "nominal",
              "scale": {"domain": [MEASURED, *PARTS.values()], "range": PALETTE[:len(PARTS) + 1]},
              "legend": legend_below()}
    told = tooltip(("rung", "rung"), ("part", "part"), ("text", "size"))
    layers = [
        {"mark": {"type": "bar"}, "encoding": {**place, "color": colour, "order": {"field": "order"}, "tooltip": told}},
        {"data": {"values": [_label(row, unit) for row in measured]},
         "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 11, "color": TEXT},
         "encoding": {**place, "text": {"field": "label"}}}]
    predictions = [
        {
            "rung": row["rung"],
            "bar": MEASURED,
            "part": "predicted peak",
            "size": row["predicted"]["bytes"] / unit,
            "text": row["predicted"]["text"],
        }
        for row in measured
        if row["predicted"]
    ]
    if predictions:
        layers.append(
            {
                "data": {"values": predictions},
                "mark": {"type": "tick", "thickness": 2, "color": TEXT, "size": 16},
                "encoding": {**place, "tooltip": told},
            }
        )
    return layered(report, "peak memory of each rung",
                   "upper bar: the most bytes that tensors hold, with the prediction across it; lower bar: tensors by "
                   "purpose", list(_bars(rows, unit)), layers, {"step": 20})
