"""tools/gpu/kernels reads the same facts from machine code as NVIDIA's cuobjdump. It needs no GPU."""
import ctypes
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(os.environ["OPTRUSH_SOURCE_DIR"])
COMMAND = SOURCE / "tools/gpu/kernels"
USAGE = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)")
KERNELS = """
template <class T> __global__ void __launch_bounds__(128) scale(T* x, T by) { x[threadIdx.x] *= by; }
template __global__ void scale<float>(float*, float);
extern "C" __global__ void sums(float* x) {
  __shared__ float parts[300];
  parts[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = parts[299 - threadIdx.x];
}
extern "C" __global__ void spills(float* x) {
  float kept[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) kept[i] = x[i * 32 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) x[i * 32 + threadIdx.x] = kept[95 - i] * kept[i];
}
"""


def skip(why):
    print(why)
    sys.exit(77)


def beside_torch(module, pattern):
    found = importlib.util.find_spec(module)
    if not found:
        return skip(f"{pattern} is not beside {module}")
    folder = Path(found.origin or next(iter(found.submodule_search_locations))).parent
    places = list(folder.glob(pattern))
    return places[0] if places else skip(f"{pattern} is not beside {module}")


NVRTC = ctypes.CDLL(str(beside_torch("torch", "../nvidia/*/lib/libnvrtc.so.1?")))
CUOBJDUMP = beside_torch("triton", "backends/nvidia/bin/cuobjdump")


def compiled(arch, *options):
    """A cubin of KERNELS."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    words = [f"--gpu-architecture={arch}".encode(), *map(str.encode, options)]
    assert NVRTC.nvrtcCreateProgram(ctypes.byref(program), KERNELS.encode(), b"kernels.cu", 0, None, None) == 0
    assert NVRTC.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words)) == 0
    assert NVRTC.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    image = ctypes.create_string_buffer(size.value)
    assert NVRTC.nvrtcGetCUBIN(program, image) == 0
    return image.raw


def by_cuobjdump(file):
    told = [subprocess.run([CUOBJDUMP, what, file], capture_output=True, text=True, check=True).stdout
            for what in ("--list-elf", "--dump-resource-usage")]
    arch = re.search(r"\.(sm_\d+)", told[0])[1]
    return {name: (arch, *map(int, numbers)) for name, *numbers in USAGE.findall(told[1])}


def kernels(*words, code=0, **environment):
    done = subprocess.run([sys.executable, COMMAND, *map(str, words)], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def output_of(*words, **environment):
    return json.loads(kernels("--json", *words, **environment))


def agrees_with_cuobjdump(folder):
    for arch in ("sm_80", "sm_90", "sm_100"):
        file = folder / f"{arch}.cubin"
        file.write_bytes(compiled(arch, "--maxrregcount=32"))
        expected, found = by_cuobjdump(file), {kernel["name"]: kernel for kernel in output_of(file)}
        assert {name: (kernel["arch"], kernel["registers"], kernel["stack"], kernel["shared"])
                for name, kernel in found.items()} == expected, (found, expected)
        assert len(found) == 3 and found["spills"]["stack"] > 0 == found["sums"]["stack"], found
        reserved = 0 if arch == "sm_80" else 1024  # by the system, of a block's shared memory
        assert found["sums"]["shared"] == 300 * 4 + reserved, found
        assert [found[name]["threads"] for name in ("_Z5scaleIfEvPT_S0_", "sums")] == [128, 0], found
    each = [output_of(folder / f"{arch}.cubin") for arch in ("sm_100", "sm_80", "sm_90")]
    assert output_of(folder) == [kernel for kernels_of_file in each for kernel in kernels_of_file]


def reads_both_caches(folder):
    """Without a path it reads the cache: a cubin after its hash and symbol, and the two halves of a unit."""
    image = compiled("sm_90")
    content = b"sums\n" + image
    (folder / "kernels").mkdir()
    (folder / "kernels/0123.cubin").write_bytes(hashlib.sha256(content).hexdigest().encode() + content)
    unit = folder / "inductor/abcdef/unit.pt2"
    unit.parent.mkdir(parents=True)
    with zipfile.ZipFile(unit, "w") as package:
        for half in ("forward", "backward"):
            package.writestr(f"unit/data/aotinductor/{half}/xyz.cubin", image)
            package.writestr(f"unit/data/aotinductor/{half}/xyz.so", b"\x7fELF")
    found = output_of(OPTRUSH_CACHE=str(folder))
    places = [f"{unit}/backward", f"{unit}/forward", str(folder / "kernels/0123.cubin")]
    assert sorted(kernel["place"] for kernel in found) == sorted(3 * places), found
    table = kernels(OPTRUSH_CACHE=str(folder)).splitlines()
    assert table[0].split() == ["kernel", "arch", "registers", "stack", "shared", "threads", "where"], table
    assert len(table) == 10, table
    registers = [int(line.split("sm_90")[1].split()[0]) for line in table[1:]]
    assert registers == sorted(registers, reverse=True) and registers[0] > 32, table
    assert {line.split("  ")[-1] for line in table[1:]} == {"abcdef forward", "abcdef backward", "0123"}, table


def refuses_other_files(folder):
    (folder / "empty").mkdir()
    assert "does not exist" in kernels(folder / "none", code=2)
    assert "no kernel in" in kernels(folder / "empty", code=2)
    assert "no kernel in the cache" in kernels(code=2, OPTRUSH_CACHE=str(folder / "empty"))
    image = compiled("sm_90")
    contents = (("text.cubin", b"text" * 40), ("host.cubin", Path(sys.executable).read_bytes()),
                ("cut.cubin", image[:900]))
    for name, content in contents:
        (folder / name).write_bytes(content)
        message = kernels(folder / name, code=2)
        assert name in message and "hint: name a cubin" in message, message


for test in (agrees_with_cuobjdump, reads_both_caches, refuses_other_files):
    with tempfile.TemporaryDirectory() as scratch:
        test(Path(scratch))
