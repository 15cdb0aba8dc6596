"""The table of predictions and measurements, from the results of the steps."""
import json
import re
import statistics
from collections import defaultdict

from first_hour.predictions import predicted_rungs
from first_hour.steps import STAGES

STAND_IN = "FAKE"  # begins the name of a device that computes nothing (tests/fake_cuda)
NOTHING_COMPUTED = "The device is a stand-in for a GPU: it computes nothing, so no figure of it is a measurement."
SUSTAINED = 650e12
SHORTEST = 0.05  # seconds of a part of the set-up that has a row
SETUP_SECONDS = "6 on an H200, at an earlier commit"
# For Llama 3.2 1B on 16 cores: 1.24 billion numbers at 3 ns each on a core; 4.9 GB at 25 GB/s.
EXPECTED_OF_SETUP = {"initial values": "0.3", "parameters to the device": "0.5", "copies to pinned memory": "0.3",
                     "waits for copies to the GPU": "0.2", "pinned memory": "0.05"}


def read(file):
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None


def runs_of(report):
    """The results of a report's runs by the name of the rung, also if no report was written."""
    variants = read(report / "variants.json") or []
    names = {variant["index"]: variant["name"] for variant in variants}
    found = defaultdict(list)
    for file in sorted(report.glob("runs/*/result.json")):
        index, result = int(file.parent.name.split("-")[0]), read(file)
        if result and index in names and re.search(r"-r\d+$", file.parent.name):  # no run of the gate
            found[names[index]].append(result)
    return found


def speed_of(results):
    return statistics.median(result["tokens_per_second"] for result in results)


def rungs_of(report):
    """The final result of each rung: its speed, memory and launches, or the reason why there is none."""
    rungs = {}
    for name, results in runs_of(report).items():
        good = [result for result in results if result["status"] == "ok" and result.get("tokens_per_second")]
        if not good:
            # The first round has the reason; later rounds may only state that they did not run.
            rungs[name] = {"status": results[0]["status"], "reason": results[0]["reason"]}
            continue
        memory, costs = good[0].get("memory") or {}, good[0].get("costs")
        rungs[name] = {"status": "ok", "rounds": len(good), "tokens_per_second": speed_of(good),
                       "peak_bytes": memory.get("peak_allocated"), "launches": costs and costs["total"]["launches"],
                       "flops_per_token": (good[0].get("flops_per_token") or {}).get("mfu")}
    return rungs


def best_rungs(machine):
    """The best rungs of the flagship that have run: the fastest of ours without a compiler, of ours with one, and of
    PyTorch's."""
    speeds = {}
    for label in ("eager", "compiled"):
        for name, rung in rungs_of(machine / "reports/flagship" / label).items():
            if rung["status"] == "ok":
                speeds[name] = rung["tokens_per_second"]
    kinds = {
        "PyTorch": lambda name: name.startswith(("PyTorch", "torch.compile")),
        "compiled": lambda name: name.startswith("compile"),
    }
    chosen = {}
    for name, speed in speeds.items():
        kind = next((kind for kind, has in kinds.items() if has(name)), "eager")
        if name != "base" and speed > speeds.get(chosen.get(kind), 0):
            chosen[kind] = name
    return tuple(sorted(chosen.values())) or ("micro-batch 8",)


def shown(quantity, value):
    if value is None:
        return "—"
    if quantity == "peak_bytes":
        return f"{value / 2**30:.1f} GiB"
    return f"{value:,.0f}"


class Table:
    """Rows (name, predicted, measured). On a stand-in, speeds are left out and each row states its source."""

    def __init__(self, card):
        self.stand_in = card.startswith(STAND_IN)
        self.rows = []

    def add(self, what, predicted, measured, speed=False):
        if self.stand_in:
            what = f"{STAND_IN}: {what}"
            measured = "—" if speed else measured
        self.rows.append((what, predicted or "—", measured or "—"))

    def text(self):
        lines = [("quantity", "predicted", "measured"), (":---", "---:", "---:"), *self.rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def doctor_rows(table, step, folder):
    page = read(folder / "doctor.json")
    peak = page["peak"] if page else None
    products = peak["dtype_flops"].get("bf16") if peak else None
    expected = step.expected["bf16 products, TFLOP/s"]
    table.add("bf16 products, TFLOP/s", expected, products and f"{products / 1e12:,.0f}", speed=True)
    table.add("memory, GB/s", "", page and f"{page['bandwidth_bytes_per_second'] / 1e9:,.0f}", speed=True)


def ratio_rows(table, step, rungs):
    for what, expected in step.expected.items():
        if ", over " in what:
            upper, lower = (rungs.get(name, {}).get("tokens_per_second") for name in what.rsplit(", over ", 1))
            table.add(what, expected, upper and lower and f"{upper / lower:.3f}x", speed=True)


def rung_rows(table, step, rungs, predicted, peak):
    for name, rung in rungs.items():
        what = f"{step.name}: {name}"
        expected = predicted.get(name, {})
        told = step.expected.get(f"{name}, tokens/s") or shown("tokens_per_second", expected.get("tokens_per_second"))
        if rung["status"] != "ok":
            table.add(
                what,
                told,
                f"{rung['status']}: {rung['reason'].splitlines()[0][:80] if rung['reason'] else ''}".replace("|", "/"),
            )
            continue
        rounds = f", {rung['rounds']} rounds" if rung["rounds"] > 1 else ""
        table.add(f"{what}, tokens/s{rounds}", told, shown("tokens_per_second", rung["tokens_per_second"]), speed=True)
        if rung["flops_per_token"] and peak:
            rate = rung["flops_per_token"] * rung["tokens_per_second"]
            share = f"{100 * rate / peak['mfu_denominator']:.0f} %"
            products = peak["dtype_flops"].get("bf16", 0)
            if 0 < products < SUSTAINED:
                share += f" ({100 * rate / products:.0f} % of the products measured here)"
            table.add(f"{what}, MFU", "", share, speed=True)
        table.add(
            f"{what}, peak memory",
            shown("peak_bytes", expected.get("peak_bytes")),
            shown("peak_bytes", rung["peak_bytes"]),
        )
        if rung["launches"]:
            table.add(
                f"{what}, launches counted",
                shown("launches", expected.get("launches")),
                shown("launches", rung["launches"]),
            )


def setup_rows(table, report):
    """The time of a run before its first step by part, as the median of the runs that have not compiled."""
    seconds, whole = defaultdict(list), []
    for file in sorted(report.glob("runs/*-r*/metrics.jsonl")):
        event = next(
            (line for line in map(json.loads, file.read_text().splitlines()) if line.get("event") == "setup"), None
        )
        result = read(file.with_name("result.json"))
        if not event or not result or result["status"] != "ok":
            continue
        whole.append(result["setup_seconds"])
        measured = event["seconds"] | {what: event[what] for what in ("user_seconds", "system_seconds", "page_faults")}
        for part, spent in measured.items():
            seconds[part].append(spent)
    if not whole:
        return
    table.add("set-up of a run, s", SETUP_SECONDS, f"{statistics.median(whole):.2f}", speed=True)
    for part, spent in seconds.items():
        median = statistics.median(spent)
        if part == "page_faults":
            table.add("set-up: page faults", "", f"{median:,.0f}", speed=True)
        elif median >= SHORTEST:
            name = part.replace("_seconds", " time of the processors")
            table.add(f"set-up: {name}, s", EXPECTED_OF_SETUP.get(part, ""), f"{median:.2f}", speed=True)


def trace_rows(table, report, predicted):
    variants = {variant["index"]: variant["name"] for variant in read(report / "variants.json") or []}
    for file in sorted(report.glob("runs/*-r1/trace.json")):
        name, trace = variants.get(int(file.parent.name.split("-")[0])), read(file)
        if trace:
            kernels = sum(
                event.get("cat") == "kernel" or "Memcpy DtoD" in event.get("name", "") for event in trace["traceEvents"]
            )
            table.add(f"trace: {name}, kernels of a step", shown("launches", predicted.get(name, {}).get("launches")),
                      f"{kernels:,}" if kernels else None)


def bandwidth_rows(table, report):
    """Rows for kernels.lua: the time of a whole forward and backward of each form."""
    for name, rung in rungs_of(report).items():
        if rung["status"] == "ok":
            table.add(
                f"kernels: {name}, positions/s", "", shown("tokens_per_second", rung["tokens_per_second"]), speed=True
            )
        else:
            table.add(f"kernels: {name}", "", f"{rung['status']}: {rung['reason'][:80]}")


def cases_left(outputs):
    """The number of cases for which a check had no time."""
    check = read(outputs / "check.json")
    return check["counts"]["not run"] if check else 0


def count_rows(table, step, folder, state):
    """Rows for test programs, checks and checkers."""
    for what, expected in step.expected.items():
        found = None
        if what == "tests that failed" and (tests := read(folder / "tests.json")):
            found = f"{tests['failures']} of {tests['tests']}"
        elif what == "cases that failed" and (check := read(folder / "check.json")):
            statuses = [case["status"] for case in check["cases"]]
            found = f"{statuses.count('failed')} of {len(statuses) - statuses.count('not run')} that ran"
        elif what == "exit code" and state.get("code") is not None:
            found = str(state["code"])
        elif state.get("status") == "failed":
            found = f"exit code {state['code']}"
        table.add(f"{step.name}: {what}", expected, found)


def table_of(machine, card, steps):
    """The table of a machine's folder. `steps`: the outcome of each step."""
    table = Table(card)
    predicted = predicted_rungs(machine / "outputs/plans/plans.json", card)
    page = read(machine / "outputs/doctor/doctor.json")
    for stage in STAGES.values():
        for step in stage:
            state, folder = steps.get(step.name, {}), machine / "outputs" / step.name
            report = machine / "reports" / step.report / step.name
            if step.name == "doctor":
                doctor_rows(table, step, folder)
            elif step.name == "trace":
                trace_rows(table, report, predicted)
            elif step.report == "flagship":
                rungs = rungs_of(report)
                rung_rows(table, step, rungs, predicted, page and page["peak"])
                ratio_rows(table, step, rungs)
                if step.name == "eager":
                    setup_rows(table, report)
            elif step.report == "single_gpu":
                rung_rows(table, step, rungs_of(report), {}, page and page["peak"])
            elif step.report:
                bandwidth_rows(table, report)
            elif step.expected:
                count_rows(table, step, folder, state)
    return table


def page_of(machine, card, steps):
    """The text of findings.md."""
    lines = [f"# {card}", ""]
    if card.startswith(STAND_IN):
        lines += [NOTHING_COMPUTED, ""]
    lines += [table_of(machine, card, steps).text(), "| stage | step | limit | state |", "|---:|:---|---:|:---|"]
    for number, stage in STAGES.items():
        for step in stage:
            state = steps.get(step.name)
            told = "not yet" if not state else f"{state['status']}, {state['seconds']:.0f} s"
            if state and state["status"] == "failed":
                told += f", exit code {state['code']}: outputs/{step.name}/log.txt"
            lines.append(f"| {number} | {step.title} | {step.minutes:g} min | {told} |")
    return "\n".join(lines) + "\n"


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
