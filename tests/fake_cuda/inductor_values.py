"""inductor_values.py FOLDER: computes the kernels of inductor_lower.py on a CPU and compares them with the graphs.

Triton's interpreter executes each kernel that Inductor made for a GPU, block by block, on CPU tensors. The CPU computes
the matrix products. This tests indices, masks, reductions and casts of the kernels, and not the rounding of a GPU."""
import contextlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

os.environ["TRITON_INTERPRET"] = "1"  # read at the import

import torch  # noqa: E402
import torch._inductor.inductor_prims  # noqa: E402, F401: operators of the graphs
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

TOLERANCE, OF_BF16 = 1e-3, 5e-2  # of the plugin's check; a graph rounds after each operator, a kernel at its end
KINDS = ("pointwise", "reduction", "persistent_reduction")


class Libdevice:
    """CUDA's math functions, which the interpreter lacks, mapped to Triton's functions of the same name."""

    def __getattr__(self, name):
        return getattr(tl.math, name)


def integers(*bounds):
    """tl.range with bounds that are tensors in the interpreter."""
    def value(bound):
        return int(bound.handle.data.item()) if hasattr(bound, "handle") else int(getattr(bound, "value", bound))
    return range(*map(value, bounds))


class Kernel:
    """Replaces Inductor's kernel: the same arguments, and any block size that the kernel allows."""

    launched = 0

    def __init__(self, name, source, folder):
        self.meta = {}

        def keeps_meta(**meta):
            self.meta = meta
            return lambda function: function

        for line in ("from torch._inductor.runtime import triton_helpers, triton_heuristics",
                     "triton_helpers.set_driver_to_gpu()",
                     "from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math"):
            source = source.replace(line, "")
        from torch._inductor.runtime import triton_helpers

        file = Path(folder) / f"{name}.py"
        file.write_text(source.replace("tl.range(", "integers("))
        scope = {"triton_heuristics": SimpleNamespace(**dict.fromkeys(KINDS, keeps_meta)), "libdevice": Libdevice(),
                 "integers": integers, "triton_helpers": triton_helpers, "tl_math": triton_helpers.math,
                 "__file__": str(file), "__name__": name}
        exec(compile(file.read_text(), str(file), "exec"), scope)
        self.function = scope[name]

    def run(self, *arguments, stream=None):
        signature = self.meta["triton_meta"]["signature"]
        given = dict(zip([name for name in signature if not name.endswith("BLOCK")], arguments))
        blocks = {name: self.block(name, given) for name in signature if name.endswith("BLOCK")}
        grid = [triton.cdiv(given["xnumel"], blocks["XBLOCK"])]
        if self.meta["inductor_meta"]["grid_type"] == "Grid2D":
            grid.append(triton.cdiv(given["ynumel"], blocks["YBLOCK"]))
        elif self.meta["inductor_meta"]["grid_type"] != "Grid1D":
            raise NotImplementedError(f"a grid of the kind {self.meta['inductor_meta']['grid_type']}")
        Kernel.launched += 1
        self.function[tuple(grid)](**given, **blocks)

    @staticmethod
    def block(name, given):
        """A small block size, so that most kernels need several blocks."""
        most = {"XBLOCK": 16, "YBLOCK": 16, "R0_BLOCK": 16}[name]
        return min(triton.next_power_of_2(given[{"X": "xnumel", "Y": "ynumel", "R": "r0_numel"}[name[0]]]), most)


def on_cpu(source):
    source = re.sub(r"torch\.cuda\._DeviceGuard\(\d+\)", "contextlib.nullcontext()", source)
    source = re.sub(r"torch\.cuda\.set_device\(\d+\)", "pass", source)
    return re.sub(r"device\(type='cuda', index=\d+\)", "torch.device('cpu')", source)


def kernels_of(file, folder):
    """The function `call` of Inductor's code."""
    source = on_cpu(file.read_text())
    for line, instead in (("from torch._inductor.async_compile import AsyncCompile", ""),
                          ("from torch._C import _cuda_getCurrentRawStream as get_raw_stream", ""),
                          ("guards._empty_strided_cuda", "guards._empty_strided_cpu")):
        source = source.replace(line, instead)
    compiler = SimpleNamespace(triton=lambda name, source, device_str=None: Kernel(name, source, folder),
                               wait=lambda scope: None)
    scope = {"AsyncCompile": lambda: compiler, "get_raw_stream": lambda device: None, "contextlib": contextlib}
    exec(compile(source, str(file), "exec"), scope)
    return scope["call"]


def graph_of(file):
    scope = {"torch": torch, "device": torch.device, "inf": float("inf"), "nan": float("nan")}
    exec(compile(on_cpu(file.read_text()).lstrip(), str(file), "exec"), scope)
    return lambda inputs: scope["forward"](None, *inputs)


def make_input(shape, strides, dtype):
    """A random input. A matrix is scaled as in a model, so that a product keeps the size of its input.

    Large attention scores would let rounding move the attention from one position to another.
    """
    size = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides))
    dtype = getattr(torch, dtype)
    scale = max(shape) ** -0.5 if len(shape) == 2 else 1
    if dtype.is_floating_point:
        values = (torch.randn(size) * scale).to(dtype)
    else:
        values = torch.randint(0, 8, (size,)).to(dtype)
    return torch.as_strided(values, shape, strides)


def compare(folder, half):
    """The largest difference of an output relative to its largest value."""
    torch.manual_seed(1)
    given = json.loads((folder / f"{half}.json").read_text())
    inputs, graph = [make_input(*each) for each in given], folder / f"{half}.graph.py"
    reduced = "bfloat16" in graph.read_text() or any(dtype == "bfloat16" for *_, dtype in given)
    allowed = OF_BF16 if reduced else TOLERANCE
    expected = graph_of(graph)([tensor.clone() for tensor in inputs])
    with tempfile.TemporaryDirectory() as scratch:
        computed = kernels_of(folder / f"{half}.kernels.py", scratch)(list(inputs))
    worst = 0.0
    for number, (is_, should) in enumerate(zip(computed, expected, strict=True)):
        if should is None:
            continue
        assert is_.shape == should.shape and is_.dtype == should.dtype, (folder, half, number, is_.shape, should.shape)
        apart = (is_.double() - should.double()).abs().max().item() / max(should.double().abs().max().item(), 1e-12)
        assert apart <= allowed, (f"{folder.name}: output {number} of the {half} differs by {apart:.1e} of its "
                                  f"largest value, {allowed:.0e} is allowed")
        worst = max(worst, apart)
    return worst


def told(folder, half):
    # The interpreter's atomic additions with masked lanes give values that change from run to run.
    if "tl.atomic_add(" in (folder / f"{half}.kernels.py").read_text():
        return f"{half} left out, because it adds atomically"
    return f"{half} within {compare(folder, half):.1e}"


if __name__ == "__main__":
    for unit in sorted(Path(sys.argv[1]).iterdir()):
        print(f"{unit.name}: {told(unit, 'forward')}, {told(unit, 'backward')}", flush=True)
    assert Kernel.launched > 0, "Inductor made no kernel"
    print(f"{Kernel.launched} kernels ran by value")
