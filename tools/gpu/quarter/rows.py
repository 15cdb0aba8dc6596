"""The rows of the findings, one function for each kind of step: what was expected, what was measured, the verdict."""

from dataclasses import dataclass

from quarter.expected import about, shown
from quarter.predictions import LAUNCHES, MEMORY, SPEED
from quarter.results import read, rungs_of, runs_of, setup_of, sustained_of, variants_of

STAND_IN = "FAKE"  # begins the name of a device that computes nothing (tests/fake_cuda)
SHORTEST = 0.05  # seconds of a part of the set-up that has a row
# Of Llama 3.2 1B on 16 cores: 1.24 billion numbers at 3 ns each on a core; 4.9 GB at 25 GB/s.
SETUP = {"all": 6, "initial values": 0.3, "parameters to the device": 0.5, "copies to pinned memory": 0.3,
         "waits for copies to the GPU": 0.2}


@dataclass(frozen=True)
class Row:
    quantity: str
    expected: str = ""
    measured: str = ""
    verdict: str = ""  # "met", "missed", or "": there is no expectation, or no measurement


class Rows:
    """Rows of a card. On a stand-in, speeds are left out and each row states its source."""

    def __init__(self, card):
        self.stand_in = card.startswith(STAND_IN)
        self.rows = []

    def add(self, quantity, expected=None, measured=None, text=None, speed=False):
        """`expected`: an Expected or None; `measured`: a number or None, written as `text`."""
        if self.stand_in:
            quantity = f"{STAND_IN}: {quantity}"
            measured, text = (None, None) if speed else (measured, text)
        if measured is not None and text is None:
            text = shown(measured, expected.unit if expected else "")
        self.rows.append(Row(quantity, expected.text() if expected else "", text or "",
                             expected.verdict(measured) if expected else ""))


def gib(bytes_):
    return None if bytes_ is None else round(bytes_ / 2**30, 1)


def doctor_rows(rows, step, folder):
    page = read(folder / "doctor.json") or {}
    peak = page.get("peak") or {}
    measured = {"bf16 products, TFLOP/s": (peak.get("dtype_flops") or {}).get("bf16")}
    for dtype, rate in sustained_of(page).items():
        measured[f"{dtype} products over seconds, TFLOP/s"] = rate
    for quantity in {**step.expected, **measured}:
        rate = measured.get(quantity)
        rows.add(quantity, step.expected.get(quantity), rate and rate / 1e12, speed=True)
    for product in peak.get("sustained") or []:
        if product["gpu"] and product.get("watts"):
            shape = " x ".join(map(str, product["shape"]))
            rows.add(f"{product['dtype']} products of {shape}, watts", None, product["watts"], speed=True)
    bandwidth = page.get("bandwidth_bytes_per_second")
    rows.add("memory, GB/s", None, bandwidth and bandwidth / 1e9, speed=True)


def expected_rows(rows, step, machine):
    """Ratios "UPPER, over LOWER" and speeds "RUNG, tokens/s" that the step expects. "over ladder": over the same rung
    of the flagship's report."""
    rungs = rungs_of(machine.joinpath("reports", *step.report))
    ladder = rungs_of(machine / "reports/flagship/ladder")

    def speed(rung, among=rungs):
        return among.get(rung, {}).get("tokens_per_second")

    for quantity, expected in step.expected.items():
        name = f"{step.name}: {quantity}"
        if quantity.endswith(", tokens/s"):
            rows.add(name, expected, speed(quantity.removesuffix(", tokens/s")), speed=True)
            continue
        upper, lower = quantity.rsplit(", over ", 1)
        below = speed(upper, ladder) if lower == "ladder" else speed(lower)
        rows.add(name, expected, speed(upper) and below and speed(upper) / below, speed=True)


def rung_rows(rows, label, rungs, predicted, doctor):
    """Every rung of a report beside what its plan predicts."""
    peak, sustained = doctor.get("peak"), sustained_of(doctor).get("bf16")
    for name, rung in rungs.items():
        what, of_plan = f"{label}: {name}", predicted.get(name, {})
        if rung["status"] != "ok":
            reason = rung["reason"].splitlines()[0][:80] if rung["reason"] else ""
            rows.add(what, text=f"{rung['status']}: {reason}".replace("|", "/"))
            continue
        rounds = f", {rung['rounds']} rounds" if rung["rounds"] > 1 else ""
        tokens = of_plan.get("tokens_per_second")
        rows.add(f"{what}, tokens/s{rounds}", tokens and about(tokens, SPEED), rung["tokens_per_second"], speed=True)
        if rung["flops_per_token"] and peak:
            rate = rung["flops_per_token"] * rung["tokens_per_second"]
            text = f"{100 * rate / peak['mfu_denominator']:.0f} %"
            text += f" ({100 * rate / sustained:.0f} % of the products over seconds)" if sustained else ""
            rows.add(f"{what}, MFU", None, rate, text, speed=True)
        memory, launches = gib(of_plan.get("peak_bytes")), of_plan.get("launches")
        rows.add(f"{what}, peak memory, GiB", memory and about(memory, MEMORY), gib(rung["peak_bytes"]),
                 rung["peak_bytes"] and f"{gib(rung['peak_bytes']):.1f}")
        if rung["launches"]:
            rows.add(f"{what}, launches counted", launches and about(launches, LAUNCHES), rung["launches"])


def setup_rows(rows, report):
    """The time of a run before its first step by part."""
    for part, median in setup_of(report).items():
        if part == "page_faults":
            rows.add("set-up: page faults", None, median, speed=True)
        elif median >= SHORTEST:
            expected = SETUP.get(part)
            of_part = part.replace("_seconds", " time of the processors")
            name = "set-up of a run, s" if part == "all" else f"set-up: {of_part}, s"
            rows.add(name, expected and about(expected, 0.5), median, f"{median:.2f}", speed=True)


def trace_rows(rows, step, report, predicted):
    """The time of a step by kind of work, and its kernels beside the launches of its plan."""
    variants, measured = variants_of(report), {}
    for name, results in runs_of(report).items():
        measured |= {f"{name}: {part}, ms": 1e3 * spent for part, spent in (results[0].get("traced") or {}).items()}
    for quantity in {**step.expected, **measured}:
        rows.add(f"trace: {quantity}", step.expected.get(quantity), measured.get(quantity), speed=True)
    for file in sorted(report.glob("runs/*-r1/trace.json")):
        name, trace = variants.get(int(file.parent.name.split("-")[0]), {}).get("name"), read(file)
        if not trace:
            continue
        kernels = sum(event.get("cat") == "kernel" or "Memcpy DtoD" in event.get("name", "")
                      for event in trace["traceEvents"])
        launches = predicted.get(name, {}).get("launches")
        rows.add(f"trace: {name}, kernels of a step", launches and about(launches, LAUNCHES), kernels or None)


def count_rows(rows, step, folder, state):
    """Rows of test programs, checks and checkers."""
    for what, expected in step.expected.items():
        measured = text = None
        if what == "tests that failed" and (tests := read(folder / "tests.json")):
            measured, text = tests["failures"], f"{tests['failures']} of {tests['tests']}"
        elif what == "cases that failed" and (check := read(folder / "check.json")):
            statuses = [case["status"] for case in check["cases"]]
            measured = statuses.count("failed")
            text = f"{measured} of {len(statuses) - statuses.count('not run')} that ran"
        elif state.get("code"):
            measured, text = (state["code"], str(state["code"])) if what == "exit code" else (
                state["code"], f"exit code {state['code']}")
        elif what == "exit code" and state.get("code") is not None:
            measured = state["code"]
        rows.add(f"{step.name}: {what}", expected, measured, text)
