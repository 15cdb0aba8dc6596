"""The helper of the plugin compile: it traces attention with the kernels that the host chose.

Units that are compiled together compute the same as their modules."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from unittest.mock import patch

import torch
import torch._inductor.codecache as codecache
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch._inductor.package import load_package
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, str(pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"], "plugins/optimizations/compile")))
import inductor  # noqa: E402
import wrappers  # noqa: E402


def calls_of_attention(kernels, dtype=torch.float32):
    q = torch.randn(1, 2, 8, 16, dtype=dtype)
    with inductor.attention_as_on_host(kernels, [q]):
        graph = make_fx(lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True))(q).graph
    return {str(node.target) for node in graph.nodes if node.op == "call_function"}


def is_fused(calls):
    return any("_scaled_dot_product_flash_attention_for_cpu" in call for call in calls)


assert is_fused(calls_of_attention(["flash"]))
assert is_fused(calls_of_attention(["cudnn", "flash", "efficient", "math"]))
assert not is_fused(calls_of_attention(["math"]))
# Code for the fused kernel could not run in fp64.
assert not is_fused(calls_of_attention(["flash"], torch.float64))
# The helper knows every name that the host may send, and every allowed slot has calls.
for name in ("math", "flash", "efficient", "cudnn"):
    assert inductor.ATTENTION_KERNELS[name]
assert set(inductor.CALLS_OF_SLOT) == {"attention", "linear"}
# The helper finds the same instruction set as Inductor does without it, also if Inductor has tested none before.
PICK = "from torch._inductor.cpu_vec_isa import pick_vec_isa; isa = pick_vec_isa(); print(isa, isa.build_arch_flags())"
alone = subprocess.run([sys.executable, "-c", PICK], capture_output=True, text=True, check=True).stdout.strip()
with tempfile.TemporaryDirectory() as scratch, patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=scratch):
    inductor.prepare()
    picked = pick_vec_isa()
    assert list(pathlib.Path(scratch).rglob("*.so")), "no instruction set was tested"
assert f"{picked} {picked.build_arch_flags()}" == alone, (picked, alone)


def save_unit(folder, unit, inputs):
    folder.mkdir()
    torch.jit.trace(unit, inputs).save(folder / "unit.pt")
    described = [
        {"sizes": x.shape, "strides": x.stride(), "dtype": "float32", "device": "cpu", "requires_grad": x.requires_grad}
        for x in inputs
    ]
    request = {"mode": "default", "activations": {"policy": "save", "keep": [], "budget": 1}, "attention": ["math"],
               "threads": 1, "inputs": described, "pairs": []}
    (folder / "request.json").write_text(json.dumps(request))


class Scaled(torch.nn.Module):
    def forward(self, x, weight):
        return ((x * weight).exp(),)


class Product(torch.nn.Module):
    def forward(self, x, weight):
        return ((x @ weight).tanh() + x,)


def gradients_of(folder, inputs, gradient):
    """The results of the compiled halves, called as the host calls them."""
    meta = json.loads((folder / "meta.json").read_text())
    run = {name: load_package(str(folder / "unit.pt2"), name).loader.run for name in ("forward", "backward")}
    with torch.no_grad():
        outputs = run["forward"]([x.detach() for x in inputs])
        saved = [(inputs if kind == "input" else outputs)[index].detach() for kind, index in meta["saved"]]
        return [outputs[0], *run["backward"]([*saved, gradient])]


# Units that are compiled together in one process compute the same as their modules.
with tempfile.TemporaryDirectory() as scratch:
    units = {"scaled": Scaled(), "product": Product()}
    x, weight = torch.randn(8, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    folders = [pathlib.Path(scratch, name) for name in units]
    for folder in folders:
        save_unit(folder, units[folder.name], (x, weight))
    build_in, compile_units = [], inductor.compile_units
    inductor.compile_units = lambda folders, requests, build: (
        build_in.append(pathlib.Path(build)), compile_units(folders, requests, build))
    inductor.main(folders)
    # The build folder is in the folder of the unit, not in the system's, so that a killed process leaves nothing.
    assert [place.parent for place in build_in] == folders[:1] and not build_in[0].exists(), build_in
    for folder in folders:
        (expected,) = units[folder.name](x, weight)
        gradient = torch.randn_like(expected)
        expected = [expected, *torch.autograd.grad(expected, (x, weight), gradient)]
        for is_, should in zip(gradients_of(folder, (x, weight), gradient), expected, strict=True):
            torch.testing.assert_close(is_, should, rtol=1e-5, atol=1e-5)
# Our parser of device names accepts the same names as the regular expression of torch.
NAMES = ["cpu", "cuda", "cuda:0", "cuda:17", "xpu:1", "mps", "", "cpu:", "cuda:x", "cuda:1x", "cpux", "gpu", ":1",
         "cuda:1:2", "cuda "]
PROGRAM = wrappers.DEVICE_WITHOUT_REGEX + """#include <regex>
#include <iostream>
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::smatch m;
    const bool fits = std::regex_match(std::string(argv[i]), m, std::regex(""));
    std::cout << fits << '|' << m[1].str() << '|' << m[3].matched << '|' << m[3].str() << std::endl;
  }
}
"""
with tempfile.TemporaryDirectory() as scratch:
    pathlib.Path(scratch, "devices.cpp").write_text(PROGRAM)
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, "-O0", "-w", "-std=c++17", "devices.cpp", "-o", "devices"], cwd=scratch, check=True)
    parsed = subprocess.run([f"{scratch}/devices", *NAMES], capture_output=True, text=True, check=True)
    told = parsed.stdout.splitlines()
for name, line in zip(NAMES, told, strict=True):
    found = re.fullmatch("(cpu|cuda|xpu|mps)(:([0-9]+))?", name)
    assert line == (f"1|{found[1]}|{int(found[3] is not None)}|{found[3] or ''}" if found else "0||0|"), (name, line)
assert "/optrush_" in codecache._get_cpp_wrapper_header("cpu", aot_mode=True), "this torch parses devices differently"
# Two headers are compiled ahead, for wrappers and for kernels, and the units are built with them. torch 2.15 also
# compiles both with the flags of code that links LibTorch.
kinds = 1 if torch.__version__ < "2.15" else 2
assert codecache._precompile_header.cache_info().currsize == 2 * kinds, codecache._precompile_header.cache_info()
# One object file has the functions that every wrapper begins with; no wrapper compiled them.
objects = wrappers.BuilderWithInterface.objects
assert len(objects) == 4 and len(set(objects.values())) == 1, objects
print("passed")
