"""The stand-in starts only on request, names bad settings, and ends at a function that it lacks."""
import os
import subprocess
import sys
from pathlib import Path

BUILD = Path(os.environ["OPTRUSH_BUILD_DIR"])
LIBRARY = BUILD / "tests/fake_cuda/libcuda.so.1"
STARTER = Path(__file__).parent / "on_fake_cuda.py"


def count_devices(function="cudaGetDeviceCount", **environment):
    """Calls a function of the library in a new process."""
    call = f"import ctypes; ctypes.CDLL({str(LIBRARY)!r}).{function}(ctypes.byref(ctypes.c_int()))"
    environment = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", call], env=environment, capture_output=True, text=True, check=False)


def expect(what, got, code, text):
    assert got.returncode == code and text in got.stderr, f"{what}: code {got.returncode}, {got.stderr!r}"


expect("without the variable", count_devices(), 2, "Set FAKE_CUDA=1 if that is what you want")
expect("sound", count_devices(FAKE_CUDA="1"), 0, "")
for what, variable, value, text in (
        ("architecture", "FAKE_CUDA_ARCH", "sm_42", "sm_80, sm_90 or sm_100 is needed"),
        ("memory", "FAKE_CUDA_MEMORY", "80 GB", "a number from 1073741824 to"),
        ("devices", "FAKE_CUDA_DEVICES", "9", "a number from 1 to 8 is needed")):
    expect(what, count_devices(FAKE_CUDA="1", **{variable: value}), 2, f"{variable}={value}: {text}")
missing = count_devices("cusolverDnCreate", FAKE_CUDA="1")
expect("a missing function", missing, -6, "cusolverDnCreate is not written")

starter = [sys.executable, str(STARTER)]
other_torch = {**os.environ, "OPTRUSH_TORCH": "/"}
other = subprocess.run([*starter, "--", "true"], env=other_torch, capture_output=True, text=True, check=False)
expect("another torch", other, 2, "the stand-in was built for")
nothing = subprocess.run(starter, capture_output=True, text=True, check=False)
expect("no command", nothing, 2, "no command")
