"""The losses, and below them how far each rung is from what the gate compares it with:
{"lines": [{"name", "losses": [[step, loss]], "validation": [[step, loss]]}],
 "distances": [{"rung", "to", "apart": [[step, distance]], "allowed": number or null, "last": step}],
 "round": the round of the steps, "target": {"loss", "text"} or null}
What is bit-equal has no point on a logarithmic axis, and no strip."""
import math

from parts import WIDTH, colour_by, dash_by, loss_axis, stacked, step_axis, strips, target_line, tooltip, where
from theme import BAD, PALETTE


def _curves(lines, target, values):
    names = [line["name"] for line in lines]
    for line in lines:
        values += [{"line": line["name"], "step": step, "loss": loss} for step, loss in line["losses"]]
        values += [{"line": line["name"], "step": step, "validation": loss} for step, loss in line["validation"]]

    def layer(field, title, mark):
        return {"transform": where(f"isValid(datum.{field})"), "mark": mark,
                "encoding": {"x": step_axis(values), "y": loss_axis(field), "color": colour_by("line", names),
                             "tooltip": tooltip(("line", "rung"), ("step", "step"), (field, title, ",.6~g"))}}

    # A point for every step would hide validations.
    validated = any(line["validation"] for line in lines)
    curves = layer("loss", "loss", {"type": "line", "strokeWidth": 1.5 if validated else 2,
                                    "point": False if validated else {"size": 22}})
    curves["encoding"]["strokeDash"] = dash_by("line", names)
    layers = [curves]
    if validated:
        layers.append(layer("validation", "validation loss",
                            {"type": "point", "shape": "diamond", "filled": True, "opacity": 1, "size": 110,
                             "stroke": "white", "strokeWidth": 1}))
    if target:
        layers.append(target_line(target))
    return {"width": WIDTH, "height": 300, "layer": layers}


def _distances(rungs, values):
    sizes = []
    for rung in rungs:
        values += [
            {"rung": rung["rung"], "step": step, "to": rung["to"], "apart": apart} for step, apart in rung["apart"]
        ]
        sizes += [apart for _, apart in rung["apart"]]
        if rung["allowed"]:
            values.append({"rung": rung["rung"], "step": 0, "last": rung["last"], "allowed": rung["allowed"]})
            sizes.append(rung["allowed"])
    # An even number of whole decades, so that a tick is in the middle.
    top = math.ceil(math.log10(max(sizes)))
    half = max(1, math.ceil((top - math.floor(math.log10(min(sizes)))) / 2))
    ticks = [math.pow(10, top - 2 * half), math.pow(10, top - half), math.pow(10, top)]

    def y(field):
        return {"field": field, "type": "quantitative", "title": None,
                "scale": {"type": "log", "domain": [ticks[0], ticks[-1]]}, "axis": {"values": ticks, "format": ".0e"}}

    told = tooltip(("rung", "rung"), ("to", "compared with"), ("step", "step"), ("apart", "relative difference", ".2e"))
    layers = [
        {"transform": where("isValid(datum.allowed)"),
         "mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 1.5, "color": BAD},
         "encoding": {"x": step_axis(values), "x2": {"field": "last"}, "y": y("allowed")}},
        {"transform": where("isValid(datum.apart)"),
         "mark": {"type": "line", "strokeWidth": 1.5, "color": PALETTE[0], "point": {"size": 18}},
         "encoding": {"x": step_axis(values), "y": y("apart"), "tooltip": told}}]
    title = {
        "text": "relative difference from the loss of the reference",
        "subtitle": [
            "logarithmic; dashed: largest difference allowed (no line: equal bits required); steps with equal bits "
            "have no point"
        ],
        "fontSize": 12,
        "fontWeight": "normal",
    }
    return {**strips("rung", [rung["rung"] for rung in rungs], layers), "transform": where("isValid(datum.rung)"),
            "title": title}


def chart(report, data):
    values = []
    panels = [_curves(data["lines"], data["target"], values)]
    if data["distances"]:
        panels.append(_distances(data["distances"], values))
    subtitle = f"every step of the {data['round']}, warm-up included"
    if any(line["validation"] for line in data["lines"]):
        subtitle += "; diamonds: validation loss before that step"
    return stacked(report, "loss", subtitle, values, panels)
