"""findings.md and outcome.json: the measurements of all calls beside the expected values."""

import re
from dataclasses import asdict

from quarter.predictions import predicted_rungs
from quarter.results import read, rungs_of
from quarter.rows import (STAND_IN, Rows, count_rows, doctor_rows, expected_rows, rung_rows, setup_rows, trace_rows)
from quarter.stages import STAGES, all_steps, stage_of

NOTHING_COMPUTED = "The device is a stand-in for a GPU: it computes nothing, so no figure of it is a measurement."


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def rows_of_step(step, machine, card, states, predicted):
    rows, folder = Rows(card), machine / "outputs" / step.name
    if step.shows == "doctor":
        doctor_rows(rows, step, folder)
    elif step.shows == "trace":
        trace_rows(rows, step, machine.joinpath("reports", *step.report), predicted)
    elif step.shows == "rungs":
        expected_rows(rows, step, machine)
    else:
        count_rows(rows, step, folder, states[step.name])
    return rows.rows


def outcome_of(machine, card, states, plans):
    """Per step: its state, and rows of what it has measured. Then rows of all reports and of the set-up of a run."""
    predicted = predicted_rungs(plans, card)
    steps = {}
    for name, step in all_steps().items():
        if name in states:
            rows = rows_of_step(step, machine, card, states, predicted)
            steps[name] = states[name] | {"stage": stage_of(name), "rows": [asdict(row) for row in rows]}
    rungs, doctor = Rows(card), read(machine / "outputs/doctor/doctor.json") or {}
    for report in dict.fromkeys(step.report for step in all_steps().values() if step.report):
        of_flagship = predicted if report == ("flagship", "ladder") else {}
        rung_rows(rungs, report[1], rungs_of(machine.joinpath("reports", *report)), of_flagship, doctor)
    setup_rows(rungs, machine / "reports/flagship/ladder")
    return {"steps": steps, "rungs": [asdict(row) for row in rungs.rows]}


def table(rows):
    lines = [("quantity", "expected", "measured", ""), (":---", "---:", "---:", ":---")]
    lines += [[row[cell] or "—" for cell in ("quantity", "expected", "measured")] + [row["verdict"]] for row in rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def state_text(name, state):
    if not state:
        return "not yet"
    text = f"{state['status']}, {state['seconds']:.0f} s"
    text += f", exit code {state['code']}: outputs/{name}/log.txt" if state["status"] == "failed" else ""
    return text + (f" ({state['note']})" if state.get("note") else "")


def page_of(outcome, card):
    """The text of findings.md."""
    steps = outcome["steps"]
    rows = [row for step in steps.values() for row in step["rows"]]
    missed = [row["quantity"] for row in rows + outcome["rungs"] if row["verdict"] == "missed"]
    lines = [f"# {card}", ""]
    if card.startswith(STAND_IN):
        lines += [NOTHING_COMPUTED, ""]
    if missed:
        lines += [f"Missed: {'; '.join(missed)}.", ""]
    lines += [table(rows), table(outcome["rungs"]), "| stage | step | minutes | state |", "|---:|:---|---:|:---|"]
    listed = set()
    for number, stage in STAGES.items():
        for step in stage.steps:
            if step.name not in listed:
                state = state_text(step.name, steps.get(step.name))
                lines.append(f"| {number} | {step.title} | {step.minutes:g} | {state} |")
                listed.add(step.name)
    return "\n".join(lines) + "\n"
