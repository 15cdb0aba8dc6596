"""The results of a campaign by kind of fault."""

COLUMNS = {"lost": "results lost", "twice": "runs made twice", "left": "processes left",
           "differs": "reports that differ", "unclear": "unclear messages"}


def failed(fault):
    return any(fault.get(key) for key in COLUMNS)


def of(faults):
    struck = [fault for fault in faults if fault["struck"]]
    lines = ["| fault | count | " + " | ".join(COLUMNS.values()) + " |", "| :--- |" + " ---: |" * (1 + len(COLUMNS))]
    for kind in sorted({fault["kind"] for fault in struck}):
        of_kind = [fault for fault in struck if fault["kind"] == kind]
        cells = [str(sum(bool(fault.get(key)) for fault in of_kind)) for key in COLUMNS]
        lines.append(f"| {kind} | {len(of_kind)} | " + " | ".join(cells) + " |")
    cells = [str(sum(bool(fault.get(key)) for fault in struck)) for key in COLUMNS]
    lines.append(f"| all | {len(struck)} | " + " | ".join(cells) + " |")
    skipped = {fault["kind"]: fault["skipped"] for fault in faults if fault.get("skipped")}
    lines += [f"not possible here: {kind}: {why}" for kind, why in sorted(skipped.items())]
    late = sum(not fault["struck"] and not fault.get("skipped") for fault in faults)
    lines.append(f"came too late, and are not counted: {late}")
    for fault in filter(failed, faults):
        what = "; ".join(f"{COLUMNS[key]}: {fault[key]}" for key in COLUMNS if fault.get(key))
        lines.append(f"--only {fault['number']}: {fault['scene']}, {fault['kind']}: {what}")
    return "\n".join(lines)
