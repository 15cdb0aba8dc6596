"""The package without a host: it imports nothing large, costs nothing, reads lines of logs and stored reports."""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "scripts/python"))
REPORT = SOURCE / "tests/fixtures/reports/short"

import optimization_rush  # noqa: E402
from optimization_rush import logs  # noqa: E402
from optimization_rush.clock import Clock  # noqa: E402
from optimization_rush.measurement import steps  # noqa: E402

for name in ("OPTRUSH_SPEC", "OPTRUSH_OUT", "OPTRUSH_METRICS", "OPTRUSH_TURNS"):
    os.environ.pop(name, None)


def refused(kind, call, *texts):
    try:
        call()
    except kind as error:
        assert all(text in str(error) for text in texts), error
        return
    raise AssertionError(f"{kind.__name__} expected: {texts}")


def imports_only_the_standard_library():
    code = ("import sys, optimization_rush; optimization_rush.steps, optimization_rush.read, optimization_rush.run; "
            "sys.exit(' '.join({'torch', 'numpy', 'pandas', 'transformers'} & sys.modules.keys()) or None)")
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(SOURCE / "scripts/python")})
    refused(AttributeError, lambda: optimization_rush.step, "no attribute 'step'", "steps")


def does_nothing_without_a_host():
    made = list(steps(tokens=8, count=4))
    assert [step.number for step in made] == [0, 1, 2, 3]
    with made[0].phase("forward") as phase, made[0].untimed() as untimed:
        assert phase is None and untimed is None
    endless = steps(tokens=8)
    assert [next(endless).number for _ in range(3)] == [0, 1, 2]


def times_phases():
    """The clock reads 1, 2, 4, 8, ... so that each span has its own sum."""
    clock, before = Clock(gpu=False), time.perf_counter
    time.perf_counter = iter([2.0**n for n in range(20)]).__next__
    try:
        clock.start()  # 1
        with clock.phase("forward"):  # 2
            pass  # 4
        with clock.phase(None):  # 8
            pass  # 16
        with clock.phase("forward"):  # 32
            pass  # 64
        assert clock.take() == (128 - 1 - (16 - 8), {"forward": 2.0 + 32.0})
        clock.start()  # 256
        clock.stop()  # 512
        time.perf_counter()
        assert clock.take() == (256.0, {})
    finally:
        time.perf_counter = before


def measured(folder, body, **train):
    """The result of a loop under the variables that the host sets."""
    spec = {"train": {"warmup": 1, "steps": 3, **train}}
    (folder / "spec.json").write_text(json.dumps(spec))
    names = {"OPTRUSH_SPEC": "spec.json", "OPTRUSH_OUT": "result.json", "OPTRUSH_METRICS": "metrics.jsonl"}
    for file in ("result.json", "metrics.jsonl"):
        (folder / file).unlink(missing_ok=True)
    os.environ.update({name: str(folder / file) for name, file in names.items()})
    try:
        body()
    finally:
        for name in names:
            del os.environ[name]
    return json.loads((folder / "result.json").read_text()) if (folder / "result.json").exists() else None


def reports_its_steps(folder):
    def loop():
        for step in steps(tokens=10):
            with step.phase("forward"), step.untimed():
                step.loss = 4.0 - step.number
            if step.number == 2:
                step.loss, step.tokens = float("nan"), 20

    result = measured(folder, loop)
    assert [step["timed"] for step in result["steps"]] == [False, True, True, True]
    assert [step["loss"] for step in result["steps"]] == [4.0, 3.0, None, 1.0]
    assert [step["tokens"] for step in result["steps"]] == [10, 10, 20, 10]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [{"event": "step", **step} for step in result["steps"]] == lines

    def leaves():
        for step in steps(tokens=10):
            if step.number == 2:
                break

    assert len(measured(folder, leaves)["steps"]) == 2, "the step of the break is not complete"

    def forgets_tokens():
        for _ in steps(tokens=0):
            pass

    refused(ValueError, lambda: measured(folder, forgets_tokens), "step 0: tokens is 0", "batch * length")

    def loss_of_text():
        for step in steps(tokens=1):
            step.loss = "low"

    refused(TypeError, lambda: measured(folder, loss_of_text), "step 0: loss must be a number", "loss.mean()")
    assert "loss" not in measured(folder, lambda: [None for _ in steps(tokens=1)])["steps"][0]


LINES = {  # two lines of each program, with the numbers in them
    "nanogpt": (["iter 0: loss 10.9886, time 2503.45ms, mfu -100.00%", "iter 1: loss 9.5, time 250.00ms, mfu 2.10%"],
                [(10.9886, None, 2.50345), (9.5, None, 0.25)]),
    "llm.c": (["step    1/19560 | loss 11.010252 (+nanz)| norm 15.1374 (+nanz)| lr 8.57e-07 | 4688.25 ms | 28.8% bf16 "
               "MFU | 111830 tok/s",
               "step    2/19560 | loss 3.25 (-1.21z)| norm nan (+0.02z)| lr 0.00e+00 | 4000.00 ms | 1% bf16 MFU | 1 "
               "tok/s"],
              [(11.010252, 15.1374, 4.68825), (3.25, None, 4.0)]),
    "torchtitan": (["[titan] 2025-01-01 00:00:00,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:  8.1309  "
                    "\x1b[38;2;180;60;0mgrad_norm:  1.50  \x1b[33mmemory:  1.00GiB(2.0%)  \x1b[34mtps: 1,000  "
                    "\x1b[36mtflops: 0.50  \x1b[35mmfu: 0.20%\x1b[39m",
                    "step:  2  loss:  7.5  memory:  1.00GiB(2.0%)  tps: 500  mfu: 0.2%"],
                   [(8.1309, 1.5, 2.0), (7.5, None, 4.0)]),
    "megatron": ([" iteration        1/    1000 | consumed samples:          160 | elapsed time per iteration (ms): "
                  "1147.6 | learning rate: 0.0E+00 | global batch size:    16 | loss scale: 8388608.0 |",
                  " [2025-04-13 23:41:12] iteration        2/    1000 | consumed samples:  8 | elapsed time per "
                  "iteration (ms): 430.0 | "
                  "learning rate: 1.342E-04 | global batch size:     4 | lm loss: 7.399415E+00 | loss "
                  "scale: 16384.0 | grad norm: 2.918 | number of nan iterations:   0 |"],
                 [(None, None, 1.1476), (7.399415, 2.918, 0.43)])}


def reports_a_training_of_lightning(folder):
    """The calls of Lightning's loop, with two batches for each step of the optimizer, by which it divides losses."""
    import types
    callbacks = types.ModuleType("lightning.pytorch.callbacks")
    callbacks.Callback = type("Callback", (), {})
    names = ("lightning", "lightning.pytorch", "lightning.pytorch.callbacks")
    sys.modules.update(dict(zip(names, (types.ModuleType(names[0]), types.ModuleType(names[1]), callbacks))))
    from optimization_rush.lightning import Measured

    def train():
        trainer, callback = types.SimpleNamespace(global_step=0, should_stop=False), Measured(tokens=10)
        callback.on_train_start(trainer, None)
        for batch in range(20):
            callback.on_train_batch_start(trainer, None, None, batch)
            trainer.global_step += batch % 2
            callback.on_train_batch_end(trainer, None, {"loss": (4.0 - batch / 8) / 2}, None, batch)
            if trainer.should_stop:
                break
        callback.on_train_end(trainer, None)
        batches.append(batch + 1)

    batches = []
    result = measured(folder, train)
    assert [(step["timed"], step["loss"], step["tokens"]) for step in result["steps"]] == [
        (False, 3.9375, 10), (True, 3.6875, 10), (True, 3.4375, 10), (True, 3.1875, 10)], result
    train()
    assert batches == [8, 20], "the host's number of steps ends the training; without it, nothing does"
    for name in (*names, "optimization_rush.lightning"):
        del sys.modules[name]


def reads_lines_of_logs():
    assert LINES.keys() == logs.FORMS.keys()
    for form, (lines, numbers) in LINES.items():
        reader = logs.Reader(re.compile(logs.FORMS[form]), tokens=4000, warmup=1, ranks=2)
        assert reader.take("loading the data: step by step", 0.0) is None
        found = [reader.take(line, 0.0) for line in lines]
        assert [(step["loss"], step["grad_norm"], step["seconds"]) for step in found] == numbers, (form, found)
        assert [step["timed"] for step in found] == [False, True]
        refused(ValueError, lambda: reader.take(lines[0], 0.0), "after step", "every step")  # noqa: B023
    own = logs.Reader(re.compile(r"loss (?P<loss>\S+)"), tokens=8, warmup=0, ranks=1)
    assert own.take("loss 2.5", 10.0) is None
    assert own.take("loss 2.25", 10.5) == {"step": 0, "timed": True, "tokens": 8, "seconds": 0.5, "loss": 2.25,
                                           "grad_norm": None, "phases": {}}
    refused(ValueError, lambda: logs.Reader(re.compile(r"(?P<los>\d)"), 8, 0, 1), "unknown group 'los'", "loss")


def validations_are_in_each_export(report):
    """The runs (here of one rung) and the rows of results.json have all of them, results.csv the last."""
    with (report.folder / "results.csv").open() as file:
        last = {row["rung"]: float(row["validation_loss"]) for row in csv.DictReader(file)}
    assert {row["rung"]: row["validation"][-1]["loss"] for row in report.results["rows"]} == last
    rows = {row["rung"]: row for row in report.results["rows"]}
    of_run = [{"step": each["step"], "loss": each["loss"]} for each in report.validations]
    assert len(of_run) == 2 and rows[report.validations[0]["rung"]]["validation"] == of_run


def reads_reports(folder):
    report = optimization_rush.read(REPORT)
    summary = json.loads((REPORT / "summary.json").read_text())
    results = json.loads((REPORT / "results.json").read_text())
    assert report.headline == summary["headline"] and report.finding == results["finding"]
    sys.modules["pandas"] = None  # without it, tables are lists
    assert [row["rung"] for row in report.rows] == [row["rung"] for row in results["rows"]]
    assert report.rows[1]["vs_base.speed.value"] == results["rows"][1]["vs_base"]["speed"]["value"]
    claim = next(claim for claim in report.claims if claim["rung"] == "bf16 autocast" and claim["to"] == "base")
    assert [claim["low"], claim["high"]] == results["rows"][1]["vs_base"]["speed"]["interval"]
    assert claim["verdict"] == "faster" and claim["than"] == "base"
    stored = [json.loads(line) for line in (REPORT / "runs.jsonl").read_text().splitlines()]
    assert [run["run"] for run in report.runs] == [run["id"] for run in stored] == results["runs"]
    assert len(report.steps) == sum(len(run["result"]["steps"]) for run in stored) > 0
    validations_are_in_each_export(optimization_rush.read(REPORT.parent / "validated"))
    page = report._repr_html_()
    assert summary["headline"] in page and page.count("<tr>") == 1 + len(summary["rungs"])
    for name in ("results.json", "summary.json"):
        (folder / name).write_text((REPORT / name).read_text())
    (folder / "speed.svg").write_text("<svg>speeds</svg>")
    drawn = optimization_rush.read(folder)
    assert drawn.charts["speed"]._repr_svg_() == "<svg>speeds</svg>" and "<svg>speeds" in drawn._repr_html_()
    refused(FileNotFoundError, lambda: optimization_rush.read(REPORT.parent), "is not a report", "reports/short")
    del sys.modules["pandas"]


def the_guide_shows_the_program_of_the_test():
    guide = (SOURCE / "docs/guides/your_script.md").read_text()
    assert f"```python\n{(SOURCE / 'tests/package/programs/loop.py').read_text()}```" in guide
    for form in logs.FORMS:
        assert f"| `{form}` |" in guide
    for group in logs.GROUPS:
        assert f"`{group}`" in guide


imports_only_the_standard_library()
the_guide_shows_the_program_of_the_test()
does_nothing_without_a_host()
times_phases()
reads_lines_of_logs()
with tempfile.TemporaryDirectory() as temporary:
    reports_its_steps(pathlib.Path(temporary))
    reports_a_training_of_lightning(pathlib.Path(temporary))
    reads_reports(pathlib.Path(temporary))
