"""Power, clock and power cap by the stand-in for NVML: of a run, PyTorch's programs, and doctor's sustained products.

The watts are energy divided by time, so they are near the stand-in's constant power at any speed of the machine."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from on_stand_in import BUILD, HERE, OPTRUSH, assert_no_faults, on_stand_in

WORKER = BUILD / "bin/optrush-worker"
LIMIT, CLOCK = 700, 1500
SHAPES = [[8192, 8192, 8192], [32768, 2048, 8192]]


def check(readings, watts, at_cap):
    assert 0.8 * watts < readings["watts"] < 1.25 * watts, readings
    assert readings["sm_clock_mhz"] == CLOCK and readings["power_limit_watts"] == LIMIT, readings
    assert readings["at_power_cap"] == at_cap, readings


def run(folder, spec, watts):
    counts, out = folder / f"{watts}.jsonl", folder / f"run-{watts}"
    (folder / "spec.json").write_text(json.dumps(spec))
    environment = {"FAKE_CUDA_WATTS": str(watts)} if watts else {}
    done = on_stand_in(counts, WORKER, "run", "--spec", folder / "spec.json", "--out", out, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_no_faults(counts)
    return json.loads((out / "result.json").read_text())


def peer(watts):
    """What the meter of PyTorch's programs reports."""
    program = """
import json, sys, time
from optimization_rush.gpu_use import GpuUse
use = GpuUse("GPU-1", sys.argv[1])
use.start(), time.sleep(0.3), use.stop()
print(json.dumps(use.fields()))"""
    environment = {**os.environ, "FAKE_CUDA": "1", "PYTHONPATH": str(HERE.parents[1] / "scripts/python")}
    if watts:
        environment["FAKE_CUDA_WATTS"] = str(watts)
    library = BUILD / "tests/fake_cuda/libnvidia-ml.so.1"
    done = subprocess.run([sys.executable, "-c", program, library], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def doctor(folder, arch, watts):
    counts, file = folder / f"doctor-{arch}.jsonl", folder / f"{arch}.json"
    done = on_stand_in(counts, WORKER, "doctor", "--quick", "--sustained", "0.2", "--device", "cuda", "--json", file,
                       arch=arch, environment={"FAKE_CUDA_WATTS": str(watts)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert_no_faults(counts)
    return json.loads(file.read_text())["peak"]["sustained"]


with tempfile.TemporaryDirectory() as scratch:
    dry_run = [OPTRUSH, "run", HERE / "compile_modes.lua", "--dry-run", "--json", "--device", "cpu"]
    planned = subprocess.run(dry_run, capture_output=True, text=True, check=True)
    base = json.loads(planned.stdout)[0]["variants"][0]["spec"]
    base = {**base, "device": "cuda", "train": {**base["train"], "steps": 60}}
    for power, cap in ((LIMIT, 1), (400, 0)):
        result = run(Path(scratch), base, power)
        assert result["status"] == "ok", result
        check(result["gpu"], power, cap)
        check(peer(power)["gpu"], power, cap)
    assert "gpu" not in run(Path(scratch), base, 0) and not peer(0), "NVML reports nothing"

    for architecture, dtypes in (("sm_90", ["bf16", "bf16", "fp8", "fp8"]), ("sm_80", ["bf16", "bf16"])):
        products = doctor(Path(scratch), architecture, LIMIT)
        assert [product["dtype"] for product in products] == dtypes, products
        assert [product["shape"] for product in products] == SHAPES * (len(dtypes) // 2), products
        for product in products:
            check(product, LIMIT, 1)
            assert product["gpu"] and product["seconds"] >= 0.2 and product["flops_per_second"] > 0, product
