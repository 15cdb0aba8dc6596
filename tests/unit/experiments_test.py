"""The experiments about operators run in tiny form, and their reports say what was asked."""
import json
import os
import pathlib
import subprocess
import tempfile

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])


def run(name, rungs, settings, folder):
    """Rows by rung, and the text of the report."""
    command = [BUILD / "bin/optrush", "run", SOURCE / f"experiments/{name}.lua", "--out", folder, "--rounds", "1",
               "--device", "cpu", "--threads", "1"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    for rung in rungs:
        command += ["--only", rung]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"
    report = pathlib.Path(folder) / name / "local"
    rows = {row["rung"]: row for row in json.loads((report / "results.json").read_text())["rows"]}
    for rung in rungs:
        assert rows[rung]["status"] == "ok", rows[rung]
    return rows, (report / "report.md").read_text()


with tempfile.TemporaryDirectory() as folder:
    rows, text = run("attention", ["S 256 + plain", "S 256 + fused", "S 512 + plain", "S 512 + fused"], {}, folder)
    peak = {rung: row["memory"]["peak_allocated"] for rung, row in rows.items()}
    # A doubled length: four times the scores, twice everything else.
    assert 3 < peak["S 512 + plain"] / peak["S 256 + plain"] < 4
    assert 1.5 < peak["S 512 + fused"] / peak["S 256 + fused"] < 2.2
    assert "| sequence | attention | forward | backward | peak memory |" in text and "## Roofline" in text

    operators = ["norm", "add_norm", "position", "swiglu"]
    rows, text = run("kernels", [f"{op} + {form}" for op in operators for form in ("unfused", "fused")],
                     {"train.micro_batch": 1, "train.seq_len": 16}, folder)
    for op in operators:
        assert rows[f"{op} + fused"]["gate"]["compared"], rows[f"{op} + fused"]["gate"]
    assert "forward, of the bandwidth" in text

    rows, text = run("hardware", ["255 + fp32", "257 + bf16", "norm", "linear"], {}, folder)
    lines = [line for line in text.splitlines() if line.startswith(("| norm | forward", "| linear | forward"))]
    assert "| memory |" in lines[0] and len(lines) == 2, lines
    assert "triad" in text
