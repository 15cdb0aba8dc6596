"""The loss over the time that it took to get there: {"lines": [{"name", "losses": [{"seconds", "steps", "loss"}]}],
"what": the kind of loss, "round": the round of the steps, "validated", "target": {"loss", "text"} or null}."""
from parts import colour_by, dash_by, layered, loss_axis, quantity, target_line, tooltip


def chart(report, data):
    names = [line["name"] for line in data["lines"]]
    values = [{"line": line["name"], **loss} for line in data["lines"] for loss in line["losses"]]
    mark = {"type": "line", "strokeWidth": 2}
    if data["validated"]:
        mark["point"] = {"shape": "diamond", "filled": True, "size": 50}
    told = tooltip(("line", "rung"), ("steps", "steps"), ("seconds", "seconds", ",.4~g"), ("loss", "loss", ",.6~g"))
    layers = [
        {
            "mark": mark,
            "encoding": {
                "x": {**quantity("seconds", "seconds of training"), "scale": {"zero": True, "nice": False}},
                "y": loss_axis("loss"),
                "color": colour_by("line", names),
                "strokeDash": dash_by("line", names),
                "tooltip": told,
            },
        }
    ]
    if data["target"]:
        layers.append(target_line(data["target"]))
    spec = layered(
        report,
        "loss over time",
        f"{data['what']}; {data['round']}; the time includes warm-up and excludes validation",
        values,
        layers,
        None,
    )
    del spec["height"]
    return spec
