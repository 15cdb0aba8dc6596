"""What stops a call before it takes device time: each problem is named, with its remedy."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

SOURCE = Path(os.environ["OPTRUSH_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "tools/gpu"), str(SOURCE / "bench")]
from quarter import nvml  # noqa: E402
from quarter.nvml import Gpu  # noqa: E402
from quarter.preflight import Facts, problems_of_bundle, problems_of_machine  # noqa: E402

GIB = 2**30
H100 = Gpu("NVIDIA H100 80GB HBM3", 80 * GIB, 79 * GIB)
GOOD = Facts((3, 12), "2.11.0", "13.0", "580.159.03", [H100], 50e9, {"numpy"})
LEAST, DISK = 44e9, 20e9


def told(facts, python="3.12", least=LEAST, disk=DISK):
    manifest = {"python": python, "torch": "2.11"}
    return [f"{problem.what} | {problem.remedy}" for problem in problems_of_machine(facts, manifest, least, disk)]


def one(facts, what, remedy, **more):
    found = told(facts, **more)
    assert len(found) == 1 and what in found[0] and remedy in found[0], found


def each_problem_of_a_machine_is_named():
    assert told(GOOD) == []
    assert told(replace(GOOD, gpus=[Gpu("NVIDIA H200", 140 * GIB, 139.5 * GIB)])) == []
    one(replace(GOOD, python=(3, 9)), "Python 3.9", "3.10 or newer")
    one(replace(GOOD, python=(3, 11)), "the packages of the bundle are for 3.12", "--python 3.11")
    assert told(replace(GOOD, python=(3, 11)), python="") == [], "a bundle without packages fits every Python"
    one(replace(GOOD, torch="", cuda=""), "has no torch", "torch 2.11 for CUDA 13")
    one(replace(GOOD, torch="2.10.1"), "torch is 2.10.1, and the bundle is for 2.11", "torch 2.11")
    one(replace(GOOD, cuda="12.8"), "for CUDA 12.8", "CUDA 13")
    one(replace(GOOD, cuda=""), "without CUDA", "CUDA 13")
    one(replace(GOOD, modules=set()), "numpy", "pip install numpy")
    one(replace(GOOD, driver="575.57.08"), "the driver is 575.57.08", "580")
    one(replace(GOOD, driver="", gpus=[]), "no NVIDIA driver is loaded", "nvidia-smi")
    one(replace(GOOD, gpus=[]), "no GPU can be used", "nvidia-smi")
    one(replace(GOOD, gpus=[Gpu("NVIDIA L4", 23 * GIB, 22.5 * GIB)]), "NVIDIA L4 has 23 GiB", "larger card")
    assert told(replace(GOOD, gpus=[Gpu("NVIDIA L4", 23 * GIB, 22.5 * GIB)]), least=20e9) == []
    one(replace(GOOD, gpus=[Gpu(H100.name, 80 * GIB, 60 * GIB)]), "other programs hold 20.0 GiB", "end them")
    one(replace(GOOD, disk_bytes=3e9), "3 GB of disk", "--work")
    assert told(replace(GOOD, disk_bytes=3e9), disk=2e9) == []
    everything = told(Facts((3, 9), "", "", "470.1", [Gpu("NVIDIA T4", 15 * GIB, 15 * GIB)], 1e9))
    assert len(everything) == 5, everything


def make_bundle(folder, commit="abc", python="3.12"):
    files = {"optimization_rush-1-py3-none-linux_x86_64.whl": b"a wheel", "peers/torchao-1.whl": b"another"}
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    manifest = {"commit": commit, "python": python, "torch": "2.11", "files": sums}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def each_problem_of_a_bundle_is_named(folder):
    assert problems_of_bundle(make_bundle(folder / "whole")) == []
    assert problems_of_bundle(folder / "whole", "abc") == []
    (old,) = problems_of_bundle(folder / "whole", "def")
    assert "commit abc" in old.what and "at def" in old.what and "tools/gpu/bundle" in old.remedy, old
    (none,) = problems_of_bundle(folder / "none")
    assert "no manifest.json" in none.what
    (make_bundle(folder / "lacks") / "peers/torchao-1.whl").unlink()
    (lacks,) = problems_of_bundle(folder / "lacks")
    assert "lacks peers/torchao-1.whl" in lacks.what
    (make_bundle(folder / "cut") / "peers/torchao-1.whl").write_bytes(b"anot")
    (cut,) = problems_of_bundle(folder / "cut")
    assert "torchao-1.whl of the bundle is damaged" in cut.what and "copy" in cut.remedy


def the_version_of_the_kernel_module_is_read(folder):
    nvml.PROC = folder / "version"
    assert nvml.driver_of_kernel() == ""
    nvml.PROC.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@x)\n"
                         "GCC version:  gcc version 13\n")
    assert nvml.driver_of_kernel() == "580.95.05"


def a_call_is_refused_at_once(folder):
    bundle, begun = make_bundle(folder / "bundle"), time.monotonic()
    (bundle / "peers/torchao-1.whl").unlink()
    command = [sys.executable, SOURCE / "tools/gpu/stage", "next", "--bundle", bundle, "--work", folder / "work"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "the bundle lacks peers/torchao-1.whl\n  hint: " in done.stderr, done.stderr
    assert not (folder / "work/site").exists(), "nothing was installed"
    print(f"refused after {time.monotonic() - begun:.2f} s")


def main():
    each_problem_of_a_machine_is_named()
    for case in (each_problem_of_a_bundle_is_named, the_version_of_the_kernel_module_is_read,
                 a_call_is_refused_at_once):
        with tempfile.TemporaryDirectory() as scratch:
            case(Path(scratch))
            print(case.__name__, "passed", flush=True)


main()
