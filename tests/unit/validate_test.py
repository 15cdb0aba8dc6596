"""`optrush run` with validation, a target and traces: real workers of one rank and of two, and their report."""
import csv
import json
import os
import pathlib
import subprocess
import tempfile

BUILD = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "validate",
  model = rush.llama("nano"),
  data = rush.text "text.txt",
  threads = 1,
  train = { micro_batch = 4, seq_len = 16, steps = 8, warmup = 2, lr = 1e-2 },
  validate = { every = 4, sequences = 6 },
  target_loss = 5.0,
}
exp:ladder {
  rush.rung("checkpointing", "activation_checkpointing", { policy = "offload" }),
  rush.rung("replicas", "ddp", {}, { train = { world_size = 2, micro_batch = 2 } }),
  rush.rung("shards", "fsdp", { stage = 3 }, { replace = "ddp" }),
  rush.rung("graphs", "cuda_graphs", {}, { without = "fsdp", train = { world_size = 1, micro_batch = 4 } }),
}
exp:run { rounds = 2 }
"""


def losses(result):
    return [point["loss"] for point in result["validation"]]


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    (work / "validate.lua").write_text(SCRIPT)
    (work / "text.txt").write_text("".join(f"line {i}: what is held out is its end\n" for i in range(200)))
    done = subprocess.run([BUILD / "bin/optrush", "run", "validate.lua", "--device", "cpu", "--trace"],
                          capture_output=True, text=True, cwd=work)
    assert "error" not in done.stderr, done.stdout + done.stderr
    report = work / "reports/validate/local"
    runs = {path.parent.name: json.loads(path.read_text()) for path in report.glob("runs/*/result.json")}
    rows = {row["rung"]: row for row in json.loads((report / "results.json").read_text())["rows"]}
    text = (report / "report.md").read_text()

    # Every measured run has the same points, whatever its rung, ranks and micro-batch.
    for name, result in runs.items():
        if "graphs" in name:
            continue
        assert result["status"] == "ok", f"{name}: {result['reason']}"
        if not name.endswith(("-r0", "-r1", "-r2")):
            assert "validation" not in result, name
    base = losses(runs["00-base-r1"])
    assert [point["step"] for point in runs["00-base-r1"]["validation"]] == [4, 8, 10]
    assert base[-1] < base[0]
    for rung in ("checkpointing", "replicas", "shards"):
        validated = [losses(result) for name, result in runs.items() if f"-{rung}-r" in name and "validation" in result]
        assert len(validated) == 2, (rung, sorted(runs))
        for points in validated:
            assert all(abs(a - b) < 1e-4 for a, b in zip(points, base, strict=True)), (rung, points, base)

    # A plugin that cannot run here is refused by name before it runs.
    assert rows["graphs"]["status"] != "ok" and "cuda_graphs" in rows["graphs"]["reason"], rows["graphs"]

    # The report has the columns, the counters and the links.
    assert "validation loss" in text and "time to loss" in text
    for rung in ("base", "checkpointing", "replicas", "shards"):
        reached = rows[rung]["time_to_loss"]
        assert reached["by"] == "validation loss" and reached["reached"] == (min(base) <= 5.0), reached
    assert rows["checkpointing"]["counters"][0]["name"] == "moved to the host"
    counters = {counter["name"] for counter in rows["shards"]["counters"] if counter["plugin"] == "fsdp"}
    assert counters == {"gathers", "gathered"}
    assert "fsdp: gathered per step" in text
    with open(report / "results.csv", newline="", encoding="utf-8") as file:
        table = {row["rung"]: row for row in csv.DictReader(file)}
    assert abs(float(table["base"]["validation_loss"]) - base[-1]) < 1e-12
    assert "fsdp: gathers=" in table["shards"]["counters"]

    # One trace a rank, only in the first round.
    traces = sorted(path.relative_to(report).as_posix() for path in report.glob("runs/**/trace.json"))
    assert len(traces) == 2 + 2 * 2, traces
    for trace in traces:
        assert f"({trace})" in text, trace
        names = {event.get("name") for event in json.loads((report / trace).read_text())["traceEvents"]}
        assert {"forward", "backward", "optimizer", "aten::mm"} <= names, names
    assert "traced step" in text

    # The kinds of work add up to the traced step, which is the sum of its phases; in every output.
    for rung in ("base", "checkpointing", "replicas", "shards"):
        work = rows[rung]["traced"]
        first = min(trace for trace in traces if rung in trace)
        phases = sum(event["dur"] for event in json.loads((report / first).read_text())["traceEvents"]
                     if event.get("cat") == "user_annotation" and
                     event["name"] in ("data", "forward", "backward", "communication", "optimizer")) / 1e6
        assert abs(sum(work.values()) - phases) < 1e-3 * phases, (rung, work, phases)
        assert min(work[kind] for kind in ("product", "attention", "loss", "elementwise", "optimizer")) > 0, work
        assert (work["communication"] > 0) == (rung in ("replicas", "shards")), (rung, work)
        assert abs(float(table[rung]["traced_product_seconds"]) - work["product"]) < 1e-9, rung
    for rung in ("replicas", "shards"):
        trace = next(trace for trace in traces if rung in trace)
        names = [event.get("name") for event in json.loads((report / trace).read_text())["traceEvents"]]
        assert "communication" in names, trace
