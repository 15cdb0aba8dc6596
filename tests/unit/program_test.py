"""A program as the base, from the command line: the experiment that ships, a search over flags, and a first mistake."""
import json
import os
import pathlib
import subprocess
import tempfile

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
TRAINER = SOURCE / "tests/unit/launch/fake_trainer.py"


def run(script, folder, *options):
    command = [BUILD / "bin/optrush", "run", script, "--out", folder, "--threads", "1", *options]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def script(folder, parts):
    file = pathlib.Path(folder) / "mine.lua"
    file.write_text(f"""
local rush = require "optrush"
local exp = rush.experiment {{
  name = "mine", program = {{ command = {{ "{TRAINER}" }} }}, train = {{ steps = 10, warmup = 3 }},
}}
{parts}
""")
    return file


def rows_of(report):
    return {row["rung"]: row for row in json.loads((report / "results.json").read_text())["rows"]}


with tempfile.TemporaryDirectory() as folder:
    done = run(SOURCE / "experiments/program.lua", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    report = pathlib.Path(folder) / "program/local"
    rows = rows_of(report)
    assert [row["status"] for row in rows.values()] == ["ok"] * 3, rows
    assert all(row["gate"]["checked"] for row in rows.values()), rows
    text = (report / "report.md").read_text()
    assert "| program | train.py |" in text and "+ --cache" in text, text
    assert "MFU" not in text and "another program" not in text, text
    dry = run(SOURCE / "experiments/program.lua", folder, "--dry-run")
    assert "runs {python} program/train.py --cache --no-gc" in dry.stdout, dry.stdout + dry.stderr

with tempfile.TemporaryDirectory() as folder:
    parts = """exp:search({
  rush.rung("fast", { args = { "--slower", "0.5" } }),
  { rush.rung("slow", { args = { "--slower", "1.5" } }), rush.rung("slower", { args = { "--slower", "2" } }) },
}, { within = 0.05, at_most = "60s" }):report()"""
    done = run(script(folder, parts), folder)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_of(pathlib.Path(folder) / "mine/local")
    assert list(rows) == ["base", "fast"], rows

with tempfile.TemporaryDirectory() as folder:
    parts = 'exp:ladder { rush.rung("wrong", { args = { "--fault", "no tokens" } }) }\nexp:run({ rounds = 3 }):report()'
    done = run(script(folder, parts), folder)
    assert done.returncode == 1, done.stdout + done.stderr
    row = rows_of(pathlib.Path(folder) / "mine/local")["wrong"]
    assert row["status"] == "failed" and "field 'tokens' is missing in a step" in row["reason"], row
