"""Parts of the programs for a GPU's first hour: archives of limited size, steps that end in time, the table."""
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

SOURCE = Path(os.environ["OPTRUSH_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "tools/gpu"), str(SOURCE / "bench")]
from first_hour import archives, findings, running  # noqa: E402
from first_hour.steps import STAGES  # noqa: E402

KIB = 1 << 10


def write(file, data):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def packing_and_unpacking_keep_the_files(folder):
    work, results, fresh = folder / "work", folder / "results", folder / "fresh"
    noise = random.Random(1)
    for i in range(40):
        write(work / f"cache/inductor/unit{i}/unit.pt2", noise.randbytes(3 * KIB))
    write(work / "machines/h100/state.json", b"{}")
    write(work / "machines/h100/reports/flagship/trace/runs/01-x-r1/trace.json", noise.randbytes(9 * KIB))
    write(work / "site/torch.so", b"not packed")
    assert archives.pack(work, results, skipped=("site",)) == []
    packed = sorted(results.glob("*.zip"))
    assert 1 < len(packed) <= archives.FILES and all(file.stat().st_size <= archives.BYTES for file in packed), packed
    assert archives.unpack(results, fresh) == len(packed)
    expected = {name: data for name, data in contents(work).items() if not name.startswith("site/")}
    assert contents(fresh) == expected

    # With fewer files to pack, the archives of the earlier packing are removed.
    for file in (work / "cache").rglob("*.pt2"):
        file.unlink()
    archives.pack(work, results, skipped=("site",))
    assert len(list(results.glob("*"))) == 2, list(results.glob("*"))


def the_least_important_files_are_left_out_and_named(folder):
    work, results = folder / "work", folder / "results"
    noise = random.Random(2)
    for i in range(30):
        write(work / f"cache/{i:02}", noise.randbytes(20 * KIB))
    write(work / "machines/h100/findings.md", noise.randbytes(10 * KIB))
    write(work / "machines/h100/trace.json", noise.randbytes(20 * KIB))
    write(work / "machines/h100/log.txt", noise.randbytes(archives.BYTES))
    left_out = [str(path) for path in archives.pack(work, results)]
    assert "machines/h100/log.txt" in left_out, "it is larger than the limit of an archive"
    assert "machines/h100/trace.json" in left_out and "machines/h100/findings.md" not in left_out, left_out
    assert len(list(results.glob("*.zip"))) == archives.FILES


def run(folder, script, seconds, runner=None):
    folder.mkdir(parents=True, exist_ok=True)
    return (runner or running.Runner()).run([sys.executable, "-c", script], dict(os.environ), folder, seconds)


def sleeps_in_a_group_of_its_own(folder):
    """A program with a child in another process group that ignores SIGTERM and creates a file when it runs."""
    there = str(folder / "there")
    child = (f"import signal, time, pathlib; signal.signal(15, signal.SIG_IGN); pathlib.Path({there!r}).touch(); "
             "time.sleep(600)")
    return ("import subprocess, sys, time; "
            f"subprocess.Popen([sys.executable, '-c', {child!r}], process_group=0); time.sleep(600)")


def wait_for(file):
    while not file.exists():
        time.sleep(0.02)


def every_process_of_a_step_is_ended(folder):
    runner = running.Runner()

    def stop():
        wait_for(folder / "there")
        runner.stop(signal.SIGTERM)

    stopper = threading.Thread(target=stop)
    stopper.start()
    status, code, _ = run(folder, sleeps_in_a_group_of_its_own(folder), 600, runner)
    stopper.join()
    assert (status, code) == ("stopped", -signal.SIGTERM), (status, code)
    alive = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and is_sleeper(entry, folder)]
    assert not alive, alive


def is_sleeper(entry, folder):
    try:
        is_zombie = "Z" in (entry / "stat").read_text().rpartition(")")[2][:3]
        return str(folder).encode() in (entry / "cmdline").read_bytes() and not is_zombie
    except OSError:
        return False


def each_end_of_a_step_has_its_status(folder):
    assert run(folder / "a", "print('said')", 600)[:2] == ("ok", 0)
    assert "said" in (folder / "a/log.txt").read_text()
    assert run(folder / "b", "raise SystemExit(3)", 600)[:2] == ("failed", 3)
    assert run(folder / "c", "import time; time.sleep(600)", 0.2)[:2] == ("time limit", -signal.SIGTERM)
    assert running.Runner().run(["/no/such/program"], {}, folder / "a", 1)[:2] == ("failed", 127)


def write_run(report, index, name, round_, **result):
    variants = json.loads((report / "variants.json").read_text()) if (report / "variants.json").exists() else []
    if all(variant["index"] != index for variant in variants):
        variants.append({"index": index, "name": name})
    write(report / "variants.json", json.dumps(variants).encode())
    write(report / f"runs/{index:02}-{name}-r{round_}/result.json", json.dumps(result).encode())


def the_table(folder, card):
    machine = folder / findings.slug(card)
    eager, compiled = machine / "reports/flagship/eager", machine / "reports/flagship/compiled"
    good = {"status": "ok", "reason": "", "memory": {"peak_allocated": 40 << 30}, "costs": {"total": {"launches": 700}},
            "flops_per_token": {"mfu": 9.12e9}}
    write_run(eager, 0, "base", 1, tokens_per_second=40000, setup_seconds=6.2, **good)
    event = {"event": "setup", "seconds": {"initial values": 4.5, "pinned memory": 0.01}, "user_seconds": 3,
             "system_seconds": 9, "page_faults": 262144}
    lines = json.dumps({"event": "phase"}) + "\n" + json.dumps(event) + "\n"
    write(eager / "runs/00-base-r1/metrics.jsonl", lines.encode())
    write_run(eager, 5, "micro-batch-8", 1, tokens_per_second=55000, **good)
    write_run(compiled, 6, "compile", 1, tokens_per_second=58000, **good)
    write_run(compiled, 9, "PyTorch", 1, tokens_per_second=45000, **good)
    write_run(compiled, 7, "compile, CUDA graphs", 1, status="oom", reason="out of memory | at step 1")
    write_run(compiled, 7, "compile, CUDA graphs", 2, status="skipped", reason="not run: round 1 failed")
    doctor = {"peak": {"dtype_flops": {"bf16": 600e12}, "mfu_denominator": 989e12}, "bandwidth_bytes_per_second": 3e12}
    write(machine / "outputs/doctor/doctor.json", json.dumps(doctor).encode())
    plan = {"memory": {"peak_bytes": 39 << 30}, "problem": {"global_batch": 4, "seq_len": 4096},
            "costs": {"total": {"launches": 690, "matmul_flops": 121.5e12, "noted_flops": 0, "attention_flops": 15.4e12,
                                "elementwise_bytes": 120e9, "cast_bytes": 0}, "phases": {}, "operators": {}}}
    variant = {"name": "base", "spec": {"plugins": [{"name": "flash_attention", "options": {"kernel": "flash"}}]}}
    write(machine / "outputs/plans/plans.json", json.dumps([{"variants": [variant], "plans": [plan]}]).encode())
    steps = {"eager": {"status": "ok", "code": 0, "seconds": 100},
             "test_gpu_kernel_gpu": {"status": "failed", "code": 1, "seconds": 3}}
    assert findings.best_rungs(machine) == ("PyTorch", "compile", "micro-batch-8"), findings.best_rungs(machine)
    return findings.page_of(machine, card, steps)


def rows_of(page):
    cells = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {row[0]: row[1:] for row in cells}


def predictions_are_beside_measurements(folder):
    page = the_table(folder, "NVIDIA H100 80GB HBM3")
    rows = rows_of(page)
    # 121.5 TFLOP at 650, 15.4 at 226, 120 GB at 2.55 TB/s: 302.1 ms of 16,384 tokens
    assert rows["eager: base, tokens/s"] == ["54,229", "40,000"], rows["eager: base, tokens/s"]
    assert rows["eager: base, peak memory"] == ["39.0 GiB", "40.0 GiB"]
    assert rows["eager: base, launches counted"] == ["690", "700"]
    assert rows["eager: base, MFU"][1] == "37 % (61 % of the products measured here)", rows["eager: base, MFU"]
    assert rows["bf16 products, TFLOP/s"] == ["650 or more", "600"]
    assert rows["compile, CUDA graphs, over compile"] == ["1.00x", "—"]
    assert rows["float8, over compile"] == ["1.08x to 1.11x", "—"]
    assert rows["compiled: compile, CUDA graphs"][1] == "oom: out of memory / at step 1"
    assert rows["test_gpu_kernel_gpu: tests that failed"] == ["0", "exit code 1"]
    assert "FAKE" not in page
    assert rows["set-up of a run, s"][1] == "6.20" and rows["set-up: initial values, s"] == ["0.3", "4.50"], rows
    assert rows["set-up: system time of the processors, s"][1] == "9.00", rows
    assert rows["set-up: page faults"][1] == "262,144", rows
    assert "set-up: pinned memory, s" not in rows, "too short for a row"


def results_of_a_stand_in_are_marked(folder):
    page = the_table(folder, "FAKE (nothing is computed)")
    table = page.split("| stage |")[0]
    assert findings.NOTHING_COMPUTED in page
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith(("| quantity", "| :"))]
    assert rows and all(line.startswith("| FAKE: ") for line in rows), table
    assert "tokens/s" in table and "40,000" not in table and "MFU | — | — |" in table, table


def stages_are_whole(folder):
    names = [step.name for stage in STAGES.values() for step in stage]
    assert len(names) == len(set(names)), "the outputs of a step have its name"
    assert all(step.minutes <= 9 for stage in STAGES.values() for step in stage)


archives.BYTES = 64 * KIB
running.GRACE = 1
for case in (packing_and_unpacking_keep_the_files, the_least_important_files_are_left_out_and_named,
             every_process_of_a_step_is_ended, each_end_of_a_step_has_its_status, predictions_are_beside_measurements,
             results_of_a_stand_in_are_marked, stages_are_whole):
    with tempfile.TemporaryDirectory() as scratch:
        case(Path(scratch))
        print(case.__name__, "passed", flush=True)
