"""The stand-in refuses to be used by chance, names what is wrong with its settings, and ends at a function that it lacks."""
import os
import subprocess
import sys
from pathlib import Path

BUILD = Path(os.environ["OPTRUSH_BUILD_DIR"])
LIBRARY = BUILD / "tests/fake_cuda/libcuda.so.1"
STARTER = Path(__file__).parent / "on_fake_cuda.py"


def count_devices(function="cudaGetDeviceCount", **environment):
    """Calls a function of the library in a process of its own."""
    call = f"import ctypes; ctypes.CDLL({str(LIBRARY)!r}).{function}(ctypes.byref(ctypes.c_int()))"
    return subprocess.run([sys.executable, "-c", call], env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def expect(what, got, code, text):
    assert got.returncode == code and text in got.stderr, f"{what}: code {got.returncode}, {got.stderr!r}"


expect("without the variable", count_devices(), 2, "Set FAKE_CUDA=1 if that is what you want")
expect("sound", count_devices(FAKE_CUDA="1"), 0, "")
expect("architecture", count_devices(FAKE_CUDA="1", FAKE_CUDA_ARCH="sm_42"), 2, "FAKE_CUDA_ARCH=sm_42: sm_80, sm_90 or sm_100 is needed")
expect("memory", count_devices(FAKE_CUDA="1", FAKE_CUDA_MEMORY="80 GB"), 2, "FAKE_CUDA_MEMORY=80 GB: a number from 1073741824 to")
expect("devices", count_devices(FAKE_CUDA="1", FAKE_CUDA_DEVICES="9"), 2, "FAKE_CUDA_DEVICES=9: a number from 1 to 8 is needed")
missing = count_devices("cusolverDnCreate", FAKE_CUDA="1")
expect("a function that is not there", missing, -6, "cusolverDnCreate is not written")

starter = [sys.executable, str(STARTER)]
other = subprocess.run([*starter, "--", "true"], env={**os.environ, "OPTRUSH_TORCH": "/"}, capture_output=True, text=True, check=False)
expect("another torch", other, 2, "the stand-in was built for")
nothing = subprocess.run(starter, capture_output=True, text=True, check=False)
expect("no command", nothing, 2, "no command")
