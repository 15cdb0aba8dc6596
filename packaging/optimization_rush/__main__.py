"""Starts the program `optrush` with the torch of this Python. It reads the files of torch and does not import torch."""
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def fail(what, cure):
    sys.exit(f"optrush: error[missing_requirement]: {what}\n  hint: {cure}")


def package_folders(name):
    spec = importlib.util.find_spec(name)
    return [Path(folder) for folder in spec.submodule_search_locations or []] if spec else []


def torch_of_this_python(wanted, cuda):
    """The folder of torch. Ends the program if torch is missing or has another version than the programs were built
    for."""
    cure = f"{sys.executable} -m pip install 'torch=={wanted}.*'"
    folders = package_folders("torch")
    if not folders:
        fail(f"{sys.executable} has no torch", cure)
    torch = folders[0]
    if not (torch / "lib/libtorch_cpu.so").is_file():
        fail(f"what {sys.executable} would import as torch has no lib/libtorch_cpu.so: {torch}", cure)
    facts = (torch / "version.py").read_text() if (torch / "version.py").is_file() else ""
    found = dict(re.findall(r"^(__version__|cuda)\b[^=]*= *'([^']*)'", facts, re.MULTILINE))
    version = found.get("__version__", "unknown")
    if not version.startswith(wanted + "."):
        fail(f"torch {version} in {torch} does not fit: this program needs torch {wanted}", cure)
    if cuda != "none" and found.get("cuda", "").split(".")[0] != cuda.split(".")[0]:
        fail(f"torch {version} in {torch} is built for {'CUDA ' + found['cuda'] if 'cuda' in found else 'CPUs only'}: "
             f"this program needs a build for CUDA {cuda}, which runs without a GPU, too",
             f"{cure} (from PyPI, which has the CUDA {cuda} build)")
    return torch


def check_c_library(needed):
    try:
        name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    except (AttributeError, ValueError, OSError):
        return  # not glibc, or it does not say; the loader will
    if tuple(map(int, version.split("."))) < tuple(map(int, needed.split("."))):
        fail(f"this system has {name} {version}, and the program needs {needed} or newer",
             "run it in a container of a newer system, or build it here: ./optrush wheel")


def make_executable(program):
    """Sets the executable bits, which some unpacking tools drop."""
    if os.access(program, os.X_OK):
        return
    try:
        program.chmod(program.stat().st_mode | 0o111)
    except OSError as error:
        fail(f"{program} is not executable ({error.strerror})", f"let its owner run: chmod +x {program.parent}/*")


def nvidia_folders_elsewhere(torch):
    """Folders of NVIDIA's wheels that are not beside torch, so that torch's run path does not find them."""
    beside = torch.parent / "nvidia"
    return [str(lib) for root in package_folders("nvidia") if root != beside for lib in sorted(root.glob("*/lib"))]


def main():
    facts = json.loads((PACKAGE / "share/optrush/installation.json").read_text())
    check_c_library(facts["glibc"])
    torch = torch_of_this_python(facts["torch_version"], facts["cuda_version"])
    os.environ["OPTRUSH_TORCH"] = str(torch)
    os.environ.setdefault("OPTRUSH_PYTHON", sys.executable)
    libraries = nvidia_folders_elsewhere(torch) + list(filter(None, [os.environ.get("LD_LIBRARY_PATH")]))
    if libraries:
        os.environ["LD_LIBRARY_PATH"] = ":".join(libraries)
    for name in ("optrush", "optrush-worker"):
        make_executable(PACKAGE / "bin" / name)
    program = str(PACKAGE / "bin/optrush")
    try:
        os.execv(program, ["optrush", *sys.argv[1:]])
    except OSError as error:
        fail(f"can't start {program}: {error.strerror}", "the wheel is for Linux on x86-64")


if __name__ == "__main__":
    main()
