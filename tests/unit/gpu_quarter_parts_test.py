"""Parts of the programs for a quarter of an hour on a GPU: archives of limited size, steps that end in time,
findings."""
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

SOURCE = Path(os.environ["OPTRUSH_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "tools/gpu"), str(SOURCE / "bench")]
from quarter import archives, findings, running  # noqa: E402
from quarter.choosing import OVERHEAD  # noqa: E402
from quarter.results import best_rungs  # noqa: E402
from quarter.rows import STAND_IN  # noqa: E402
from quarter.stages import FIRST, SECOND, STAGES, all_steps  # noqa: E402

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

    # Between steps only the findings are packed. The other archives stay.
    write(work / "machines/h100/log.txt", b"more")
    write(work / "cache/late", b"not yet")
    archives.pack(work, results, skipped=("site",), everything=False)
    shutil.rmtree(fresh)
    archives.unpack(results, fresh)
    assert "machines/h100/log.txt" in contents(fresh) and "cache/late" not in contents(fresh), contents(fresh).keys()
    assert any(name.endswith("trace.json") for name in contents(fresh)), contents(fresh).keys()


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


def write_run(report, index, name, round_, external=False, **result):
    variants = json.loads((report / "variants.json").read_text()) if (report / "variants.json").exists() else []
    if all(variant["index"] != index for variant in variants):
        variants.append({"index": index, "name": name, **({"external": {"command": ["python"]}} if external else {})})
    write(report / "variants.json", json.dumps(variants).encode())
    write(report / f"runs/{index:02}-{name.replace(' ', '-')}-r{round_}/result.json", json.dumps(result).encode())


def measured(folder, card):
    """The folder of a card with some results, and its outcome."""
    machine = folder / findings.slug(card)
    ladder = machine / "reports/flagship/ladder"
    good = {"status": "ok", "reason": "", "memory": {"peak_allocated": 40 << 30}, "costs": {"total": {"launches": 700}},
            "flops_per_token": {"mfu": 9.12e9}}
    write_run(ladder, 0, "base", 1, tokens_per_second=40000, setup_seconds=6.2, **good)
    event = {"event": "setup", "seconds": {"initial values": 4.5, "pinned memory": 0.01}, "user_seconds": 3,
             "system_seconds": 9, "page_faults": 262144}
    lines = json.dumps({"event": "phase"}) + "\n" + json.dumps(event) + "\n"
    write(ladder / "runs/00-base-r1/metrics.jsonl", lines.encode())
    write_run(ladder, 4, "bf16 weights", 1, tokens_per_second=60000, **good)
    write_run(ladder, 5, "micro-batch 8", 1, tokens_per_second=61000, **good)
    write_run(ladder, 6, "fused projections", 1, tokens_per_second=61500, **good)
    write_run(ladder, 9, "torch.compile", 1, external=True, tokens_per_second=45000, **good)
    write_run(ladder, 10, "Liger", 1, external=True, tokens_per_second=50000, **good)
    write_run(ladder, 11, "PyTorch", 1, external=True, tokens_per_second=40000, **good)
    write_run(ladder, 7, "torchao float8", 1, external=True, status="oom", reason="out of memory | at step 1")
    write_run(ladder, 7, "torchao float8", 2, external=True, status="skipped", reason="not run: round 1 failed")
    write_run(machine / "reports/flagship/chunk", 6, "fused projections", 1, tokens_per_second=62115, **good)
    traced = {"product": 0.17, "gaps": 0.02}
    write_run(machine / "reports/flagship/trace", 4, "bf16 weights", 1, tokens_per_second=60000, traced=traced, **good)
    doctor = {"peak": {"dtype_flops": {"bf16": 780e12}, "mfu_denominator": 989e12},
              "bandwidth_bytes_per_second": 3e12}
    product = {"dtype": "bf16", "gpu": True, "shape": [8192, 8192, 8192], "flops_per_second": 600e12, "watts": 698.0}
    doctor["peak"]["sustained"] = [product, product | {"flops_per_second": 580e12, "shape": [32768, 2048, 8192]},
                                   product | {"gpu": False, "flops_per_second": 900e12}]
    write(machine / "outputs/doctor/doctor.json", json.dumps(doctor).encode())
    plan = {"memory": {"peak_bytes": 39 << 30}, "problem": {"global_batch": 4, "seq_len": 4096},
            "costs": {"total": {"launches": 690, "matmul_flops": 121.5e12, "noted_flops": 0, "attention_flops": 15.4e12,
                                "elementwise_bytes": 120e9, "cast_bytes": 0}, "phases": {}, "operators": {}}}
    variant = {"name": "base", "spec": {"plugins": [{"name": "flash_attention", "options": {"kernel": "flash"}}]}}
    other = {"name": "Liger", "spec": {"plugins": []}, "external": {"command": ["python"]}}
    write(folder / "plans.json", json.dumps([{"variants": [variant, other], "plans": [plan, plan]}]).encode())
    names = ("doctor", "ours", "peers", "trace", "float8", "chunk")
    states = {name: {"status": "ok", "code": 0, "seconds": 100} for name in names}
    states["test_gpu_kernel_gpu"] = {"status": "failed", "code": 1, "seconds": 3}
    return machine, findings.outcome_of(machine, card, states, folder / "plans.json")


def rows_of(outcome):
    rows = [row for step in outcome["steps"].values() for row in step["rows"]] + outcome["rungs"]
    return {row["quantity"]: (row["expected"], row["measured"], row["verdict"]) for row in rows}


def each_expectation_is_met_or_missed(folder):
    machine, outcome = measured(folder, "NVIDIA H100 80GB HBM3")
    rows = rows_of(outcome)
    # 121.5 TFLOP at 692, 15.4 at 226, 120 GB at 2.55 TB/s: 290.8 ms of 16,384 tokens, 56,345 a second, 8 % either way
    assert rows["ladder: base, tokens/s"] == ("51,838 to 60,853", "40,000", "missed"), rows["ladder: base, tokens/s"]
    assert rows["ladder: base, peak memory, GiB"] == ("38.6 to 39.4", "40.0", "missed"), rows
    assert rows["ladder: base, launches counted"] == ("676 to 704", "700", "met"), rows
    assert rows["ladder: base, MFU"][1] == "37 % (61 % of the products over seconds)", rows["ladder: base, MFU"]
    assert rows["bf16 products over seconds, TFLOP/s"] == ("620 to 760", "600", "missed"), rows
    assert rows["bf16 products of 32768 x 2048 x 8192, watts"][1] == "698", rows
    assert rows["fp8 products over seconds, TFLOP/s"][1:] == ("", ""), rows
    assert rows["ours: bf16 weights, over base"] == ("1.47x to 1.56x", "1.50x", "met"), rows
    assert rows["chunk: fused projections, over ladder"] == ("1.00x to 1.015x", "1.01x", "met"), rows
    assert rows["peers: bf16 weights, over Liger"] == ("1.03x to 1.35x", "1.20x", "met"), rows
    assert rows["trace: bf16 weights: product, ms"] == ("150 to 190", "170", "met"), rows
    assert rows["trace: bf16 weights: gaps, ms"] == ("0 to 8", "20", "missed"), rows
    assert rows["trace: bf16 weights: loss, ms"][1:] == ("", ""), rows
    assert rows["float8: float8 by kernels, over torchao float8"][1:] == ("", ""), rows
    assert rows["ladder: Liger, tokens/s"] == ("", "50,000", ""), "the plan of another program is of our step"
    assert rows["ladder: torchao float8"][1] == "oom: out of memory / at step 1", rows
    assert rows["test_gpu_kernel_gpu: tests that failed"] == ("0", "exit code 1", "missed"), rows
    assert rows["set-up of a run, s"][1] == "6.20" and rows["set-up: initial values, s"][1:] == ("4.50", "missed"), rows
    assert rows["set-up: page faults"][1] == "262,144" and "set-up: pinned memory, s" not in rows, rows
    page = findings.page_of(outcome, "NVIDIA H100 80GB HBM3")
    assert STAND_IN not in page and "Missed: " in page, page
    assert "| 1 | The flagship without a compiler | 1.3 | ok, 100 s |" in page, page
    # Two of each side, and the rung that solves the same problem as the other programs.
    best = best_rungs(machine)
    assert best == (("bf16 weights", "fused projections"), ("Liger", "torch.compile")), best


def results_of_a_stand_in_are_marked(folder):
    _, outcome = measured(folder, "FAKE (nothing is computed)")
    rows = rows_of(outcome)
    assert rows and all(name.startswith("FAKE: ") for name in rows), rows
    for name, (_, text, verdict) in rows.items():
        if "tokens/s" in name or ", over " in name or "MFU" in name:
            assert (text, verdict) == ("", ""), (name, text, verdict)
    assert findings.NOTHING_COMPUTED in findings.page_of(outcome, "FAKE (nothing is computed)")


def a_quarter_of_an_hour_fits(_):
    steps = [step for stage in STAGES.values() if not stage.each_kind for step in stage.steps]
    names = [step.name for step in steps]
    assert len(names) == len(set(names)), "the outputs of a step have its name"
    for number, stage in STAGES.items():
        timed = sum(step.minutes for step in stage.steps if not step.untimed)
        together = max((step.minutes for step in stage.steps if step.untimed), default=0)
        assert stage.minutes in (FIRST, SECOND), number
        assert timed + together <= stage.minutes - OVERHEAD, (number, timed, together)


def a_smaller_card_gets_a_smaller_form(_):
    steps = all_steps()
    assert steps["ours"].form(150e9).note == "" and "micro-batch" not in steps["ours"].form(80e9).note
    assert steps["ours"].form(80e9) and not steps["ours"].form(24e9)
    assert steps["doctor"].form(24e9), "it runs on every card"


archives.BYTES = 64 * KIB
running.GRACE = 1
for case in (packing_and_unpacking_keep_the_files, the_least_important_files_are_left_out_and_named,
             every_process_of_a_step_is_ended, each_end_of_a_step_has_its_status, each_expectation_is_met_or_missed,
             results_of_a_stand_in_are_marked, a_quarter_of_an_hour_fits, a_smaller_card_gets_a_smaller_form):
    with tempfile.TemporaryDirectory() as scratch:
        case(Path(scratch))
        print(case.__name__, "passed", flush=True)
