"""The contents of the wheel, and its start."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from wheel_support import BUILD, SITE, SOURCE, TORCH, TORCH_VERSION, expect, install, make_wheel, run, skip

# Libraries that every Linux with a C++ runtime has.
SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}


def its_size_and_metadata(wheel, work):
    assert wheel.name.endswith(f"+torch{TORCH_VERSION}-py3-none-linux_x86_64.whl"), wheel
    assert wheel.stat().st_size < 40e6, wheel.stat().st_size
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
        modes = {name: archive.getinfo(name).external_attr >> 16 for name in names}
    assert f"\nRequires-Dist: torch=={TORCH_VERSION}.*\n" in metadata, metadata
    assert re.search(r"^Requires-Dist: vl-convert-python==\S+; extra == 'charts'$", metadata, re.M), metadata
    assert modes["optimization_rush/bin/optrush"] & 0o111 and modes["optimization_rush/bin/optrush-worker"] & 0o111
    for part in ("lib/liboptrush.so", "lib/liboptrush_cuda.so", "lib/optrush/plugins/compile.so",
                 "include/optrush/plugin.h",
                 "include/optrush/sdk_hash.h", "include/nlohmann/json.hpp",
                 "lib/cmake/OptimizationRush/OptimizationRushConfig.cmake",
                 "share/optrush/scripts/python/optimization_rush/measurement.py",
                 "__init__.py", "__main__.py", "measurement.py", "py.typed",
                 "share/optrush/experiments/quickstart.lua", "share/optrush/experiments/peers/transformers_twin.py",
                 "share/optrush/experiments/peers/requirements.txt"):
        assert any(name.startswith("optimization_rush/" + part) for name in names), f"not in the wheel: {part}"
    # The wheel has no other headers of the system.
    headers = [name for name in names if name.startswith("optimization_rush/include/")]
    assert {name.split("/")[2] for name in headers} == {"optrush", "nlohmann"}
    for library in ("lua", "spdlog", "fmt", "hwy", "nlohmann", "cli11", "sodium"):
        assert any("/licenses/" in name and library in name for name in names), f"no license of {library}"


def needs_few_libraries_of_the_machine(wheel, work):
    """Every library that a file needs is in the wheel, in torch's or NVIDIA's wheels, or on every system."""
    site = work / "closure"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    inside = {file.name for file in site.rglob("*.so*")}
    beside = {file.name for folder in (TORCH / "lib", SITE / "nvidia/cu13/lib") for file in folder.glob("*.so*")}
    files = [file for file in site.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
    assert len(files) > 10
    for file in files:
        dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        assert needed <= inside | beside | SYSTEM, f"{file.name} needs {needed - inside - beside - SYSTEM}"
        for folder in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic)[0].split(":"):
            assert folder.startswith("$ORIGIN"), f"{file.name} looks in {folder}"


def every_python_starts_the_program(wheel, work):
    """The Python of the build and others of this machine start it; each finds torch without an import."""
    target = work / "target"
    install(wheel, sys.executable, "--target", target)
    path = f"{target}:{SITE}"
    pythons = [sys.executable] + [f"python3.{minor}" for minor in (10, 11, 12, 13) if shutil.which(f"python3.{minor}")]
    started = 0
    for python in pythons:
        if subprocess.run([python, "-c", ""], capture_output=True).returncode:
            continue  # a placeholder for a version that is not installed
        expect(run(python, "-m", "optimization_rush", "--version", cwd=work, PYTHONPATH=path), 0, "optrush 0.")
        expect(run(python, "-m", "optimization_rush", "sdk", "--torch", cwd=work, PYTHONPATH=path), 0, str(TORCH))
        started += 1
    print(f"started by {started} Pythons")
    expect(run(target / "bin/optrush", "sdk", cwd=work, PYTHONPATH=path), 0, str(target / "optimization_rush"))


def mode_bits_lost_by_unpacking_are_restored(wheel, work):
    folder = work / "unzipped"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)  # drops the modes
    assert not os.access(folder / "optimization_rush/bin/optrush", os.X_OK)
    plugins = [sys.executable, "-m", "optimization_rush", "plugins"]
    expect(run(*plugins, cwd=work, PYTHONPATH=f"{folder}:{SITE}"), 0, "fused_adamw")
    assert os.access(folder / "optimization_rush/bin/optrush-worker", os.X_OK)


def fake_torch(folder, version, cuda, library=True):
    (folder / "torch/lib").mkdir(parents=True)
    (folder / "torch/__init__.py").touch()
    lines = ("from typing import Optional", f"__version__ = '{version}'", f"cuda: Optional[str] = {cuda}", "")
    (folder / "torch/version.py").write_text("\n".join(lines))
    if library:
        (folder / "torch/lib/libtorch_cpu.so").touch()
    return folder


def unsuitable_torch_gives_one_message(wheel, work):
    target = work / "target"
    cases = {
        "torch 2.10.0+cu128 in": fake_torch(work / "old", "2.10.0+cu128", "'12.8'"),
        "torch 2.99.0+cu130 in": fake_torch(work / "new", "2.99.0+cu130", "'13.0'"),
        "is built for CPUs only": fake_torch(work / "cpu", f"{TORCH_VERSION}.0+cpu", "None"),
        "is built for CUDA 12.6": fake_torch(work / "cu12", f"{TORCH_VERSION}.0+cu126", "'12.6'"),
        "has no lib/libtorch_cpu.so": fake_torch(work / "bare", f"{TORCH_VERSION}.0+cu130", "'13.0'", library=False),
    }
    # -S hides the packages of this Python, so there is no torch.
    done = run(sys.executable, "-S", "-m", "optimization_rush", "doctor", cwd=work, PYTHONPATH=str(target))
    messages = [("has no torch", done)]
    for text, folder in cases.items():
        done = run(sys.executable, "-m", "optimization_rush", "doctor", cwd=work, PYTHONPATH=f"{target}:{folder}")
        messages.append((text, done))
    for text, done in messages:
        output = expect(done, 1, text, f"-m pip install 'torch=={TORCH_VERSION}.*'")
        assert output.startswith("optrush: error[missing_requirement]: ") and len(output.splitlines()) == 2, output


def no_file_has_paths_of_this_machine(wheel, work):
    # The trailing slash matches a folder at the start of a path, and not a word.
    own = (SOURCE, BUILD, SITE, TORCH, pathlib.Path.home())
    folders = {f"{folder}/".encode() for folder in own if folder.parent != folder}
    with zipfile.ZipFile(wheel) as archive:
        found = {(name, folder) for name in archive.namelist() for folder in folders if folder in archive.read(name)}
    if os.environ["OPTRUSH_RELATIVE_FILE_NAMES"] != "ON":
        # Only __FILE__ of compiled code may have such names then.
        assert not [name for name, _ in found if not re.search(r"\.so(\.\d+)?$|/bin/", name)], found
        skip("all but the file names in compiled code passed: "
             "configure with -DOPTRUSH_RELATIVE_FILE_NAMES=ON for these")
    assert not found, sorted(found)


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    wheel = make_wheel(work / "dist")
    for case in (its_size_and_metadata, needs_few_libraries_of_the_machine, every_python_starts_the_program,
                 mode_bits_lost_by_unpacking_are_restored, unsuitable_torch_gives_one_message,
                 no_file_has_paths_of_this_machine):
        case(wheel, work)
        print(case.__name__, "passed", flush=True)
