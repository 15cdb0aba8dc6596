"""Finds what compilation for an NVIDIA GPU needs beside torch: CUDA's headers, a libcuda.so and Python's headers.

A toolkit with the CUDA version of torch is preferred. Without one, the wheels that torch depends on are used. They
have no libcuda.so, so a folder with a link to the driver's library replaces the toolkit's stub.
"""
import contextlib
import ctypes
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

# Headers that Inductor's code includes, and the package of each if there is no toolkit.
HEADERS = {
    "cuda.h": "nvidia-cuda-runtime",
    "cuda_runtime_api.h": "nvidia-cuda-runtime",
    "crt/host_defines.h": "nvidia-cuda-crt",
    "nv/target": "nvidia-cuda-cccl",
}
FOLDERS_OF_HEADERS = ("include", "include/cccl")  # since CUDA 13 some lie in the second alone
FOLDERS_OF_LIBRARIES = ("lib64", "lib64/stubs", "lib", "lib/stubs", "targets/x86_64-linux/lib/stubs")


class Missing(Exception):
    """This machine lacks a requirement; `cure` states the remedy."""

    def __init__(self, what, cure):
        super().__init__(what)
        self.cure = cure


def folder_of_header(home, name):
    return next((home / folder for folder in FOLDERS_OF_HEADERS if (home / folder / name).is_file()), None)


def missing_headers(home):
    return [name for name in HEADERS if folder_of_header(home, name) is None]


def major_version(home):
    header = home / "include/cuda.h"
    found = re.search(r"#define CUDA_VERSION (\d+)", header.read_text()) if header.is_file() else None
    return int(found[1]) // 1000 if found else None


def toolkits(environment):
    """Possible folders of a CUDA toolkit, the user's choice first."""
    nvcc = shutil.which("nvcc", path=environment.get("PATH"))
    homes = [environment.get("CUDA_HOME"), environment.get("CUDA_PATH"), nvcc and Path(nvcc).resolve().parents[1],
             "/usr/local/cuda"]
    return [Path(home) for home in homes if home]


def find_home(homes, wheel, version):
    """The first toolkit of CUDA `version` (its major) that has every header; otherwise the wheels."""
    for home in homes:
        if major_version(home) == version and not missing_headers(home):
            return home
    lacks = missing_headers(wheel)
    if not lacks:
        return wheel
    packages = " ".join(f"'{package}=={version}.*'" for package in dict.fromkeys(HEADERS[name] for name in lacks))
    looked = ", ".join(str(home) for home in dict.fromkeys([*homes, wheel]))
    raise Missing(
        f"CUDA {version} headers that compiled code needs are missing ({', '.join(lacks)}; looked in {looked})",
        f"in torch's Python environment: pip install {packages}; or name a CUDA {version} toolkit by CUDA_HOME",
    )


def driver_library():
    """The file that libcuda.so.1 is loaded from."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Missing("no NVIDIA driver: libcuda.so.1 was not found", "install the driver") from error
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(Path(line.split(maxsplit=5)[5]) for line in lines if "/libcuda.so" in line)


def require_python_headers(include=None):
    include = Path(include or sysconfig.get_paths()["include"])
    if not (include / "Python.h").is_file():
        raise Missing(
            f"the Python {sys.executable} has no headers ({include}/Python.h), with which Triton compiles its launcher",
            f"install them (Debian: python{sys.version_info[0]}.{sys.version_info[1]}-dev), or name a Python that has "
            "them and the same torch by OPTRUSH_PYTHON",
        )


@contextlib.contextmanager
def ready(torch_folder, version, place, environment=os.environ, homes=None):
    """Sets the environment so that Inductor finds CUDA of this version. Removes the files that it made in `place` at
    the end."""
    require_python_headers()
    wheel = Path(torch_folder).parent / "nvidia" / f"cu{version}"
    home = find_home(toolkits(environment) if homes is None else homes, wheel, version)
    environment["CUDA_HOME"] = str(home)
    if (headers := folder_of_header(home, "nv/target")) != home / "include":
        environment.setdefault("CUDA_INC_PATH", str(headers))
    with tempfile.TemporaryDirectory(dir=place) as folder:
        stubs = [home / name for name in FOLDERS_OF_LIBRARIES if (home / name / "libcuda.so").exists()]
        if not stubs:
            (Path(folder) / "libcuda.so").symlink_to(driver_library())
        given = [environment["LIBRARY_PATH"]] if environment.get("LIBRARY_PATH") else []
        environment["LIBRARY_PATH"] = ":".join([str(stubs[0] if stubs else folder), *given])
        yield
