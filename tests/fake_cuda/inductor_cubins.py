"""inductor_cubins.py CACHE: what each kernel in the units of CACHE takes of a multiprocessor, read from its machine code by cuobjdump.

Prints JSON: for each unit and half a list of {"kernel", "arch", "registers", "stack", "shared"}; stack are bytes of a thread that its
registers have no room for."""
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import triton

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
USAGE = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)")


def told(what, cubin):
    return subprocess.run([CUOBJDUMP, what, cubin], capture_output=True, text=True, check=True).stdout


def kernels_of(cubin):
    arch = re.search(r"\.(sm_\d+[a-z]?)\.cubin", told("--list-elf", cubin))[1]
    return [{"kernel": name, "arch": arch, "registers": int(registers), "stack": int(stack), "shared": int(shared)}
            for name, registers, stack, shared in USAGE.findall(told("--dump-resource-usage", cubin))]


def cubins_of(unit):
    with zipfile.ZipFile(unit) as package, tempfile.TemporaryDirectory() as scratch:
        for name in package.namelist():
            if name.endswith(".cubin"):
                yield Path(name).parent.name, Path(package.extract(name, scratch))


def resources(cache):
    found = {}
    for unit in sorted(Path(cache).glob("*/unit.pt2")):
        for half, cubin in cubins_of(unit):
            found.setdefault(unit.parent.name, {}).setdefault(half, []).extend(kernels_of(cubin))
    return found


if __name__ == "__main__":
    print(json.dumps(resources(sys.argv[1]), indent=1))
