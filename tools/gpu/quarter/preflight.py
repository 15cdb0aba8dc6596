"""Looks, before anything is installed, for what would make a call fail: the bundle, Python, torch, the driver, the
card, room. Each problem has its remedy."""

import hashlib
import importlib.util
import json
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from quarter import nvml

DRIVER = 580  # the first that runs CUDA 13
PYTHON = (3, 10)
CUDA = "13"
IN_USE = 2e9  # bytes of the GPU that others may hold


@dataclass(frozen=True)
class Problem:
    what: str
    remedy: str


@dataclass(frozen=True)
class Facts:
    """What this machine has."""

    python: tuple  # (3, 12)
    torch: str  # "2.11.0"; "": there is none
    cuda: str  # of that torch
    driver: str  # "580.159"; "": there is none
    gpus: list  # of nvml.Gpu
    disk_bytes: int
    modules: set = field(default_factory=set)  # packages that the bundle leaves to the machine


def gather(work):
    """Reads the facts. It imports no torch, which takes seconds."""
    torch, cuda = torch_of_python()
    driver, gpus = nvml.ask()
    work.mkdir(parents=True, exist_ok=True)
    modules = {name for name in ("numpy",) if importlib.util.find_spec(name)}
    return Facts(sys.version_info[:2], torch, cuda, driver, gpus, shutil.disk_usage(work).free, modules)


def torch_of_python():
    """Versions of torch and of its CUDA, from the file that torch reads them from."""
    found = importlib.util.find_spec("torch")
    if not found or not found.origin:
        return "", ""
    text = (Path(found.origin).parent / "version.py").read_text()
    version, cuda = (re.search(rf"^{name}\b[^=]*= '([^']*)'", text, re.MULTILINE) for name in ("__version__", "cuda"))
    return (version[1].partition("+")[0] if version else ""), (cuda[1] if cuda else "")


def problems_of_bundle(bundle, commit=""):
    """`commit`: of the clone that starts the call; "": the call starts from the bundle itself."""
    again = Problem("", "make the bundle again: tools/gpu/bundle")
    try:
        manifest = json.loads((bundle / "manifest.json").read_text())
    except (OSError, ValueError):
        return [Problem(f"{bundle} has no manifest.json", again.remedy)]
    found = []
    for name, sha256 in manifest["files"].items():
        file = bundle / name
        if not file.is_file():
            found.append(Problem(f"the bundle lacks {name}", again.remedy))
        elif hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
            found.append(Problem(f"{name} of the bundle is damaged", "copy and unpack the bundle again"))
    if commit and manifest["commit"] != commit:
        found.append(Problem(f"the bundle is of commit {manifest['commit']}, and this clone is at {commit}",
                             again.remedy))
    return found


def problems_of_machine(facts, manifest, least_bytes, disk_bytes):
    """`manifest`: has the Python of the bundle's packages and the torch of its wheel; `least_bytes`: the memory of a
    card that the smallest step of this call needs; `disk_bytes`: what its largest step writes."""
    found = []

    def add(what, remedy):
        found.append(Problem(what, remedy))

    python, torch = ".".join(map(str, facts.python)), manifest["torch"]
    if facts.python < PYTHON:
        add(f"this is Python {python}", f"start stage with Python {'.'.join(map(str, PYTHON))} or newer")
    elif manifest["python"] not in ("", python):
        add(f"this is Python {python}, and the packages of the bundle are for {manifest['python']}",
            f"make the bundle with --python {python}, or start stage with Python {manifest['python']}")
    if not facts.torch:
        add(f"{sys.executable} has no torch", f"start stage with a Python that has torch {torch} for CUDA {CUDA}")
    elif not facts.torch.startswith(f"{torch}."):
        add(f"torch is {facts.torch}, and the bundle is for {torch}",
            f"start stage with a Python that has torch {torch}, or make the bundle by a build with that torch")
    elif facts.cuda.partition(".")[0] != CUDA:
        add(f"torch {facts.torch} is {'for CUDA ' + facts.cuda if facts.cuda else 'without CUDA'}",
            f"install the torch {torch} for CUDA {CUDA}")
    if facts.torch and "numpy" not in facts.modules:
        add("numpy is not installed", "pip install numpy: the programs of PyTorch import it")
    if facts.disk_bytes < disk_bytes:
        add(f"{facts.disk_bytes / 1e9:.0f} GB of disk are free below the work folder, and "
            f"{disk_bytes / 1e9:.0f} GB are needed",
            "name a folder on another disk by --work")
    return found + problems_of_gpu(facts, least_bytes)


def problems_of_gpu(facts, least_bytes):
    if not facts.gpus:
        return [Problem("no GPU can be used here" if facts.driver else "no NVIDIA driver is loaded",
                        "nvidia-smi lists what the driver sees; in a container, pass the GPU on")]
    gpu, found = facts.gpus[0], []
    major = re.match(r"\d+", facts.driver)  # a stand-in has none
    if major and int(major[0]) < DRIVER:
        found.append(Problem(f"the driver is {facts.driver}",
                             f"CUDA {CUDA} needs driver {DRIVER} or newer: take another machine"))
    if gpu.total_bytes < least_bytes:
        found.append(Problem(f"{gpu.name} has {gpu.total_bytes / 2**30:.0f} GiB, and no step of this call fits a card "
                             f"below {least_bytes / 2**30:.0f} GiB", "take a larger card, or another stage"))
    elif gpu.total_bytes - gpu.free_bytes > IN_USE:
        found.append(Problem(f"other programs hold {(gpu.total_bytes - gpu.free_bytes) / 2**30:.1f} GiB of {gpu.name}",
                             "end them: nvidia-smi lists their numbers"))
    return found
