"""A plugin that misbehaves while it trains: its row reports the fault, and the other rung and results stay valid."""

HOW = {  # the statuses that the row may have
    "throws": ("failed",),
    "crashes": ("crashed",),
    "aborts": ("crashed",),
    "exits": ("crashed",),
    "exits well": ("crashed",),
    "hangs": ("timeout",),
    "forks": ("ok",),
    "leaves a daemon": ("ok",),
    "floods": ("ok",),
    "closes descriptors": ("ok", "failed", "crashed"),
    "takes memory": ("oom", "failed", "crashed"),
    "removes its folder": ("crashed",),
    "leaves a folder as result": ("crashed",),
    "leaves a pipe as result": ("crashed",),
    "leaves a loop as result": ("crashed",),
    "kills its group": ("crashed",),
    "stops itself": ("timeout",),
}
KINDS = tuple(f"plugin {how}" for how in HOW)


def judge(kind, report):
    """What is wrong with the rows; "" if nothing is."""
    how = kind.removeprefix("plugin ")
    rows = {row["rung"]: row for row in report["rows"]}
    bad = rows["bad"]
    if bad["status"] not in HOW[how]:
        return f"its row is '{bad['status']}' ({bad['reason'][:150]}), one of {HOW[how]} is right"
    if bad["status"] != "ok" and not bad["reason"]:
        return "its row has no reason"
    if how == "leaves a daemon" and "left running" not in str(bad["notes"]):
        return f"its row does not tell of the daemon: {bad['notes']}"
    for name in ("base", "good"):
        if rows[name]["status"] != "ok":
            return f"{name} is '{rows[name]['status']}': {rows[name]['reason'][:150]}"
    return ""
