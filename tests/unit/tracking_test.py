"""The runs of a report in other tools (`optrush report --to`): the tools read csv, tensorboard and wandb back."""
import csv
import importlib.util
import json
import math
import os
import pathlib
import struct
import signal
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
SKIPPED = 77
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "tracked",
  model = rush.llama("nano"),
  data = rush.random(),
  threads = 1,
  train = { micro_batch = 2, seq_len = 16, steps = 3, warmup = 1, lr = 0.001 },
}
exp:ladder { rush.rung("flash", "flash_attention", { kernel = "auto" }) }
exp:run({ rounds = 3 }):report()
"""


def optrush(*words, python=sys.executable, code=0):
    done = subprocess.run([BUILD / "bin/optrush", *words], capture_output=True, text=True, cwd=work,
                          env={**os.environ, "OPTRUSH_PYTHON": str(python)})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def stored_runs():
    return {path.parent.name: json.loads(path.read_text()) for path in report.glob("runs/*/result.json")}


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_csv():
    optrush("report", report, "--to", "csv")
    folder = report / "exported/csv"
    assert {path.name for path in folder.iterdir()} == {"steps.csv", "runs.csv", "rungs.csv"}
    assert (folder / "rungs.csv").read_text() == (report / "results.csv").read_text()
    steps, runs = rows_of(folder / "steps.csv"), rows_of(folder / "runs.csv")
    results = stored_runs()
    assert {row["run"] for row in runs} == results.keys()
    for row in runs:
        result = results[row["run"]]
        assert float(row["tokens_per_second"]) == result["tokens_per_second"]
        assert float(row["trained_tokens_per_second"]) == result["trained_tokens_per_second"]
        assert float(row["padding"]) == 0
        assert float(row["active_memory_bytes"]) == result["memory"]["peak_allocated"], result["memory"]
        assert row["reserved_memory_bytes"] == "", "unknown on a CPU"
    for name, result in results.items():
        mine = [row for row in steps if row["run"] == name]
        assert len(mine) == len(result["steps"])
        for row, step in zip(mine, result["steps"]):
            assert int(row["step"]) == step["step"] and row["timed"] == str(int(step["timed"]))
            for column in ("loss", "grad_norm", "learning_rate", "seconds"):
                assert float(row[column]) == step[column], "equal to the last bit"
            assert float(row["forward_seconds"]) == step["phases"]["forward"]
            assert int(row["trained_tokens"]) == step["tokens"], "tokens with a loss, as in the schema"
            assert int(row["processed_tokens"]) == step["processed_tokens"]
            assert int(row["positions"]) == step["positions"]
    optrush("report", report, "--to", "csv", "--out", "elsewhere")
    assert (work / "elsewhere/steps.csv").read_text() == (folder / "steps.csv").read_text()
    optrush("report", report, "--to", "csv", "--out", "elsewhere")  # replaces the files
    refused()


def refused():
    assert "tensorboard" in optrush("run", "tracked.lua", "--track", "excel", code=2)
    assert "csv" in optrush("report", report, "--to", "excel", code=2)
    assert "--to" in optrush("report", report, "--out", "elsewhere", code=2)
    bare = work / "bare"
    bare.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S \"$@\"\n")
    bare.chmod(0o755)
    for package in ("tensorboard", "wandb"):
        said = optrush("report", report, "--to", package, python=bare, code=1)
        assert f"has no package '{package}'" in said and f"{bare} -m pip install {package}" in said, said
        assert not (report / "exported" / package).exists()
        said = optrush("run", "tracked.lua", "--track", package, "--label", "none", python=bare, code=2)
        assert f"needs the package '{package}'" in said and f"{bare} -m pip install {package}" in said, said
        assert not (work / "reports/tracked/none").exists()
    (work / "full").mkdir()
    (work / "full/a file").touch()
    said = optrush("report", report, "--to", "tensorboard", "--out", "full", code=1)
    assert "is there already" in said and "--out" in said, said


def speedup_of_flash():
    results = json.loads((report / "results.json").read_text())
    return next(row for row in results["rows"] if row["rung"] == "flash")["vs_base"]["speed"]


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-6)  # event files keep 32 bits


def check_tensorboard():
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    optrush("report", report, "--to", "tensorboard")
    results, speedup = stored_runs(), speedup_of_flash()
    assert {path.name for path in (report / "exported/tensorboard").iterdir()} == results.keys()
    for name, result in results.items():
        events = EventAccumulator(str(report / "exported/tensorboard" / name))
        events.Reload()
        loss = events.Scalars("loss")
        assert [event.step for event in loss] == [step["step"] for step in result["steps"]]
        assert all(close(event.value, step["loss"]) for event, step in zip(loss, result["steps"]))
        assert len(events.Scalars("grad_norm")) == len(result["steps"])
        timed = [step for step in result["steps"] if step["timed"]]
        speed = events.Scalars("tokens_per_second")
        assert [event.step for event in speed] == [step["step"] for step in timed]
        assert all(close(event.value, step["tokens"] / step["seconds"]) for event, step in zip(speed, timed))
        forward = events.Scalars("phase/forward")
        assert all(close(event.value, step["phases"]["forward"]) for event, step in zip(forward, timed))
        peak, = events.Scalars("run/active_memory_bytes")
        assert close(peak.value, result["memory"]["peak_allocated"])
        if name.startswith("01-flash"):
            for key, value in zip(("", "_low", "_high"), (speedup["value"], *speedup["interval"])):
                event, = events.Scalars("rung/speedup_vs_base" + key)
                assert close(event.value, value)
        hyperparameters = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
        assert b"train.lr" in hyperparameters and b"stack" in hyperparameters
        assert (b"plugin.flash_attention.kernel" in hyperparameters) == name.startswith("01-flash")
    said = optrush("report", report, "--to", "tensorboard", code=1)
    assert "is there already" in said, said


def records_of(path):
    """The records of a .wandb file: a head of seven bytes, then LevelDB's log in blocks of 32 KiB."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at:at + 7])
        whole += data[at + 7:at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def check_wandb():
    optrush("report", report, "--to", "wandb")
    found = {}
    for path in (report / "exported/wandb").glob("wandb/offline-run-*/*.wandb"):
        run, history, summary = None, [], {}
        for record in records_of(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                run = record.run
            elif kind == "history":
                history.append({item.key or ".".join(item.nested_key): json.loads(item.value_json)
                                for item in record.history.item})
            elif kind == "summary":
                summary.update({item.key or ".".join(item.nested_key): json.loads(item.value_json)
                                for item in record.summary.update})
        found[run.display_name] = (run, history, summary)
    results, speedup = stored_runs(), speedup_of_flash()
    assert found.keys() == results.keys()
    for name, (run, history, summary) in found.items():
        config = {item.key: json.loads(item.value_json) for item in run.config.update}
        assert config["train.lr"] == 0.001
        assert config["stack"] == ("flash_attention" if name.startswith("01-flash") else "none")
        assert [line["loss"] for line in history] == [step["loss"] for step in results[name]["steps"]]
        assert [line["_step"] for line in history] == [step["step"] for step in results[name]["steps"]]
        assert summary["run/active_memory_bytes"] == results[name]["memory"]["peak_allocated"]
        if name.startswith("01-flash"):
            assert run.run_group == "flash" and run.project == "tracked"
            assert [summary["rung/speedup_vs_base_low"], summary["rung/speedup_vs_base_high"]] == speedup["interval"]


TRAINING = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "training", model = rush.llama("nano"), data = rush.random(), threads = 1, save = { every = 30 },
  validate = { every = 50, sequences = 2 },
  train = { micro_batch = 2, seq_len = 16, steps = rush.arg("steps", 100000), warmup = 1, lr = 0.001 },
}
exp:run { rounds = 1, max_restarts = 1 }
"""


def live_losses(folder, tracker):
    """(step, loss) of the lines that are written so far, in all parts; and the steps of validations."""
    if tracker == "tensorboard":
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        if not (folder / "00-base-r1").exists():
            return [], []
        events = EventAccumulator(str(folder / "00-base-r1"), size_guidance={"scalars": 0})
        events.Reload()
        if "loss" not in events.Tags()["scalars"]:
            return [], []
        validations = events.Scalars("validation_loss") if "validation_loss" in events.Tags()["scalars"] else []
        return [(event.step, event.value) for event in events.Scalars("loss")], [event.step for event in validations]
    steps, validations = {}, []
    for path in sorted((folder / "wandb").glob("offline-run-*/*.wandb")):
        for record in records_of(path):
            if record.WhichOneof("record_type") != "history":
                continue
            line = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            if "loss" in line:
                assert line["_step"] not in steps, "once"
                steps[line["_step"]] = line["loss"]
            validations += [line["_step"]] if "validation_loss" in line else []
    return sorted(steps.items()), validations


def check_live(tracker):
    """Steps are written during the run. Steps that are repeated after a fault or --resume are written once."""
    (work / "training.lua").write_text(TRAINING)
    run = work / "reports/training/kept/runs/00-base-r1"
    live = work / "reports/training/kept/live" / tracker

    def start(*more):
        command = [BUILD / "bin/optrush", "run", "training.lua", "--device", "cpu", "--label", "kept",
                   "--track", tracker, *more]
        return subprocess.Popen(command, cwd=work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**os.environ, "OPTRUSH_PYTHON": sys.executable})

    def wait_for(condition):
        deadline = time.monotonic() + 90
        while not condition():
            assert time.monotonic() < deadline and process.poll() is None, process.communicate()[0]
            time.sleep(0.05)

    def worker():
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        command_line = lambda child: pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")
        return [int(child) for child in children if "--out" in command_line(child)]

    process = start()
    if tracker == "tensorboard":
        wait_for(lambda: len(live_losses(live, tracker)[0]) > 60)
    else:
        wait_for(lambda: any(path.stat().st_size > 0 for path in live.glob("wandb/offline-run-*/*.wandb")))
    wait_for(lambda: (run / "state/state.json").exists())
    os.kill(*worker(), signal.SIGKILL)
    wait_for(lambda: (run / "metrics.jsonl").exists() and '"continued"' in (run / "metrics.jsonl").read_text())
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 143, said
    state = json.loads((run / "state/state.json").read_text())["step"]
    before, _ = live_losses(live, tracker)
    assert [step for step, _ in before] == list(range(state)), (before[-1], state)
    process = start("--resume", "--set", "timeout=3")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and "continues from its state" in said, said
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines() if '"event":"step"' in line]
    after, validations = live_losses(live, tracker)
    assert [line["step"] for line in steps] == list(range(len(steps))), steps
    apart = set(range(len(steps))) ^ {step for step, _ in after}
    assert [step for step, _ in after] == list(range(len(steps))), (len(steps), state, sorted(apart))
    assert all(close(value, line["loss"]) for (_, value), line in zip(after, steps))
    assert validations and all((step + 1) % 50 == 0 for step in validations), validations


case = sys.argv[1]
if case != "csv" and importlib.util.find_spec(case) is None:
    print(f"skipped: {sys.executable} has no package '{case}'; {sys.executable} -m pip install {case}")
    sys.exit(SKIPPED)
with tempfile.TemporaryDirectory() as place:
    work = pathlib.Path(place)
    (work / "tracked.lua").write_text(SCRIPT)
    optrush("run", "tracked.lua", "--device", "cpu")
    report = work / "reports/tracked/local"
    {"csv": check_csv, "tensorboard": check_tensorboard, "wandb": check_wandb}[case]()
    if case != "csv":
        check_live(case)
