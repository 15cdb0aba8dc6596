"""The tools to compile for a GPU are found, or named as missing, without a GPU: a stand-in library is the driver."""
import ctypes.util
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
DRIVER = os.environ["OPTRUSH_OLD_DRIVER"]
if os.environ.get("LD_LIBRARY_PATH", "").split(":")[0] != DRIVER:  # the loader reads it only at the start
    os.environ["LD_LIBRARY_PATH"] = DRIVER
    os.execv(sys.executable, [sys.executable, *sys.argv])

import torch  # noqa: E402

sys.path.insert(0, str(SOURCE / "plugins/optimizations/compile"))
import cuda_tools  # noqa: E402

TORCH = pathlib.Path(torch.__file__).parent
VERSION = int((torch.version.cuda or "0").split(".")[0])
WHEEL = TORCH.parent / "nvidia" / f"cu{VERSION}"


def make_toolkit(home, version, without=()):
    for name in set(cuda_tools.HEADERS) - set(without):
        (home / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "include" / name).write_text(f"#define CUDA_VERSION {version}\n")
    return home


def message_of(function, *arguments):
    try:
        function(*arguments)
    except cuda_tools.Missing as missing:
        return f"{missing}\n{missing.cure}"
    raise AssertionError("nothing was missing")


def home_has_the_right_version(work):
    old, bare = make_toolkit(work / "old", 12080), make_toolkit(work / "bare", 13000, without=["nv/target"])
    whole, wheel = make_toolkit(work / "whole", 13010), make_toolkit(work / "wheel", 13000)
    assert cuda_tools.find_home([old, bare, whole], wheel, 13) == whole
    assert cuda_tools.find_home([old, bare], wheel, 13) == wheel
    text = message_of(cuda_tools.find_home, [old], bare, 13)
    assert "nv/target" in text and "pip install 'nvidia-cuda-cccl==13.*'" in text and "CUDA_HOME" in text, text
    # CUDA 13 and newer have some headers one folder deeper.
    (bare / "include/cccl/nv").mkdir(parents=True)
    (bare / "include/cccl/nv/target").write_text("")
    assert cuda_tools.find_home([bare], wheel, 13) == bare


def named_toolkit_takes_precedence(work):
    homes = cuda_tools.toolkits({"CUDA_HOME": "/named", "PATH": "/nowhere"})
    assert [str(home) for home in homes] == ["/named", "/usr/local/cuda"], homes


def missing_python_headers_are_named(work):
    text = message_of(cuda_tools.require_python_headers, work)
    assert "Python.h" in text and sys.executable in text and "OPTRUSH_PYTHON" in text, text


def can_link(work, environment):
    (work / "empty.cpp").write_text("")
    link = [os.environ["OPTRUSH_CXX"], "-shared", "-fPIC", "empty.cpp", "-lcuda", "-o", "linked.so"]
    return subprocess.run(link, cwd=work, env=environment, capture_output=True).returncode == 0


def driver_library_is_linked(work):
    home = make_toolkit(work, VERSION * 1000)
    environment = {**os.environ, "LIBRARY_PATH": "/given"}
    if ctypes.util.find_library("cuda") is None:
        assert not can_link(work, environment), "the system has a libcuda.so to link with"
    with cuda_tools.ready(TORCH, VERSION, work, environment, homes=[home]):
        folder, given = environment["LIBRARY_PATH"].split(":")
        assert given == "/given"
        assert os.path.realpath(folder + "/libcuda.so") == os.path.realpath(DRIVER + "/libcuda.so.1")
        assert can_link(work, environment)
    assert not os.path.exists(folder)
    # The stub of a toolkit comes first.
    stub = work / "lib64/stubs/libcuda.so"
    stub.parent.mkdir(parents=True)
    stub.write_text("")
    with cuda_tools.ready(TORCH, VERSION, work, environment, homes=[home]):
        assert environment["LIBRARY_PATH"].startswith(str(stub.parent))


def inductors_own_builder_makes_cuda_code(work):
    """Inductor's builder finds the headers and links with only the wheels."""
    if cuda_tools.missing_headers(WHEEL):
        print(f"not tried: {WHEEL} lacks {cuda_tools.missing_headers(WHEEL)}")
        return
    from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions
    (work / "code.cpp").write_text("#include <torch/csrc/inductor/aoti_include/cuda.h>\n"
                                   "int launch() {\n"
                                   "  return cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);\n"
                                   "}\n")
    with cuda_tools.ready(TORCH, VERSION, work, homes=[]):
        options = CppTorchDeviceOptions(device_type="cuda", aot_mode=True, use_relative_path=False)
        CppBuilder("code", str(work / "code.cpp"), options, str(work)).build()
    assert (work / "code.so").exists()


for case in (home_has_the_right_version, named_toolkit_takes_precedence, missing_python_headers_are_named,
             driver_library_is_linked, inductors_own_builder_makes_cuda_code):
    if not VERSION and case.__name__.startswith(("driver_library", "inductors")):
        print(case.__name__, "skipped: this torch has no CUDA")
        continue
    with tempfile.TemporaryDirectory() as folder:
        case(pathlib.Path(folder))
    print(case.__name__, "passed", flush=True)
