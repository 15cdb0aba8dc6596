"""The wheel in a fresh, read-only environment. Its torch is in another folder."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from wheel_support import CMAKE, SITE, SOURCE, expect, install, make_wheel, run

TINY = {"model.dim": 32, "model.n_layers": 1, "model.n_kv_heads": 2, "model.n_heads": 2, "model.ffn_dim": 48,
        "model.vocab_size": 256, "train.seq_len": 32, "train.micro_batch": 2, "train.steps": 2, "train.warmup": 1}


def fresh_environment(wheel, folder):
    """Installs the wheel and returns its package folder. A .pth file adds torch."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python3.*/site-packages"))
    (site / "torch_elsewhere.pth").write_text(f"{SITE}\n")
    install(wheel, folder / "bin/python")
    return site / "optimization_rush"


def contents(package):
    return {file: (file.lstat().st_mtime_ns, file.lstat().st_size) for file in package.rglob("*")}


def shipped_experiment_runs(optrush, work):
    settings = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    # Three rounds make intervals that are narrow enough.
    limits = ["--at-most", "60s", "--within", "1"]
    quickstart = optrush("run", "@quickstart", *limits, "--device", "cpu", "--threads", "1", *settings)
    expect(quickstart, 0, "checkpointing", "reports/quickstart/local/report.md")
    report = work / "reports/quickstart/local"
    rows = {row["rung"]: row["status"] for row in json.loads((report / "results.json").read_text())["rows"]}
    assert set(rows.values()) == {"ok"} and "FlashAttention" in rows, rows
    context = json.loads((report / "context.json").read_text())
    describe = ["git", "-C", SOURCE, "describe", "--always", "--dirty", "--exclude=*"]
    head = subprocess.run(describe, capture_output=True, text=True)
    assert context["commit"] == head.stdout.strip(), context["commit"]
    expect(optrush("run", "@quikstart"), 2, "did you mean 'quickstart'?")


def lists(optrush, work):
    script = (SOURCE / "experiments/quickstart.lua").read_text()
    assert 'question = "Which optimizations pay on this machine?"' in script
    expect(optrush("experiments"), 0, "@quickstart", "Which optimizations pay on this machine?", "@versus_pytorch")
    shown = json.loads(optrush("experiments", "--json").stdout)
    assert {entry["name"] for entry in shown} == {file.stem for file in (SOURCE / "experiments").glob("*.lua")}
    assert not [entry for entry in shown if entry["problem"] or not all(entry["questions"])], shown
    listed = json.loads(optrush("plugins", "--json").stdout)
    assert len(listed["plugins"]) > 10 and not listed["unusable"], listed["unusable"]


def doctor(optrush, work):
    page = expect(optrush("doctor", "--quick", "--device", "cpu"), 0, "works   fused_kernels", "works   fused_adamw")
    assert str(work / "environment/bin/python") in page, page


def peer_runs_from_the_wheel(optrush, work):
    """A peer runs from the read-only folder, with the Python that the wheel is installed for."""
    settings = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    done = optrush("run", "@versus_pytorch", "--rounds", "1", "--device", "cpu", "--threads", "1",
                   "--only", "PyTorch, eager", "--arg", "precision=fp32", *settings)
    if done.returncode == 2:  # a package is missing; the message before the run has a command that works here
        expect(done, 2, "-m pip install -r ", "share/optrush/experiments/peers/requirements.txt")
        assert not (work / "reports/versus_pytorch").exists()
        return
    expect(done, 0)
    rows = json.loads((work / "reports/versus_pytorch/local/results.json").read_text())["rows"]
    peer = next(row for row in rows if row["rung"] == "PyTorch, eager")
    assert peer["status"] == "ok", peer


def own_plugin_builds_and_runs(optrush, work):
    sdk = expect(optrush("sdk"), 0).strip()
    expect(optrush("new-plugin", "wide_swiglu"), 0)
    # Nothing tells cmake the environment, so OPTRUSH_PYTHON names the Python whose torch it builds against.
    python = str(work / "environment/bin/python")
    cmake = lambda *words: expect(run(CMAKE, *words, cwd=work, OPTRUSH_PYTHON=python), 0)
    cmake("-S", "wide_swiglu", "-B", "wide_swiglu/build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={sdk}")
    cache = (work / "wide_swiglu/build/CMakeCache.txt").read_text()
    commands = (work / "wide_swiglu/build/build.ninja").read_text()
    assert "-O3" in commands or "-O2" in commands, cache
    cmake("--build", "wide_swiglu/build")
    expect(optrush("plugins", "wide_swiglu", "--plugin-path", "wide_swiglu/build/plugins"), 0, "SwiGLU in a wider type")
    built = ["--plugin-path", "wide_swiglu/build/plugins"]
    expect(optrush("run", "wide_swiglu/test/ladder.lua", *built, "--device", "cpu"), 0)
    rows = json.loads((work / "reports/wide_swiglu/local/results.json").read_text())["rows"]
    assert {row["rung"]: row["status"] for row in rows}["wide_swiglu"] == "ok", rows


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    package = fresh_environment(make_wheel(work / "dist"), work / "environment")
    subprocess.run(["chmod", "-R", "a-w", package], check=True)
    before = contents(package)
    try:
        # An experiment first measures the machine, for 12 s by default.
        quick = {"OPTRUSH_PROBE_SECONDS": os.environ["OPTRUSH_PROBE_SECONDS"]}
        optrush = lambda *arguments: run(work / "environment/bin/optrush", *arguments, cwd=work,
                                         **(quick if arguments[0] == "run" else {}))
        for case in (lists, doctor, shipped_experiment_runs, peer_runs_from_the_wheel, own_plugin_builds_and_runs):
            case(optrush, work)
            print(case.__name__, "passed", flush=True)
        assert contents(package) == before, "a program wrote into the installed package"
    finally:
        subprocess.run(["chmod", "-R", "u+w", package], check=True)
