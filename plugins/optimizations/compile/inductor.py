"""Compiles traced units and their backwards with Inductor.

usage: python inductor.py FOLDER...

Reads FOLDER/request.json and the TorchScript beside it, writes FOLDER/unit.pt2 (models "forward" and "backward") and
FOLDER/meta.json: the source of each tensor that the backward reads, the inputs that get a gradient, and the FLOPs.
If this machine lacks a requirement, missing.json in the first folder names it and the remedy.

This thread lowers the halves of all units in turn. Meanwhile the C++ compiler builds the lowered halves, in as many
processes as there are cores.
"""

import contextlib
import contextvars
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import cuda_tools
import torch
import torch._inductor as inductor
import torch._inductor.codecache as codecache
import torch._inductor.cpu_vec_isa as cpu_vec_isa
from torch._inductor import config as inductor_config
from torch._guards import detect_fake_mode
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.joint_graph import joint_graph_passes
from torch._inductor.package import package_aoti
from torch._inductor.virtualized import V
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import CheckpointPolicy

import wrappers

ATEN = torch.ops.aten
# The host's names of attention's kernels.
ATTENTION_KERNELS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
# The operators of a model after tracing: names of slots, and the calls that do their work.
# compile.cpp refuses to keep any other slot.
CALLS_OF_SLOT = {
    "linear": {ATEN.mm, ATEN.addmm, ATEN._scaled_mm, ATEN._scaled_mm_v2},
    "attention": {
        ATEN._scaled_dot_product_flash_attention,
        ATEN._scaled_dot_product_flash_attention_for_cpu,
        ATEN._scaled_dot_product_efficient_attention,
        ATEN._scaled_dot_product_cudnn_attention,
        ATEN.bmm,
    },
}


def make_input(spec):
    dtype, device = getattr(torch, spec["dtype"]), spec["device"]
    tensor = torch.empty_strided(spec["sizes"], spec["strides"], dtype=dtype, device=device)
    if dtype.is_floating_point:
        tensor.normal_()
    else:
        tensor.zero_()
    return tensor.requires_grad_(spec["requires_grad"])


def pair_function(folder, spec):
    """The pair as one autograd function over its two traced halves, so its own backward is kept."""
    forward, backward = (torch.jit.load(folder / spec[half]) for half in ("forward", "backward"))

    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            results = forward(*inputs)
            ctx.save_for_backward(*results[spec["outputs"]:])
            return tuple(results[: spec["outputs"]])

        @staticmethod
        def backward(ctx, *gradients):
            computed = iter(backward(*ctx.saved_tensors, *gradients))
            return tuple(next(computed) if given else None for given in spec["gradients"])

    return Pair.apply


def sum_of_group(tensor, group_name):
    functional = torch.ops._c10d_functional
    return functional.wait_tensor(functional.all_reduce(tensor, "sum", group_name))


@contextlib.contextmanager
def defined_operators(folder, specs):
    with torch.library._scoped_library("optrush", "DEF") as library:
        library.define("all_reduce(Tensor input, str group_name) -> Tensor")
        library.impl("all_reduce", sum_of_group, "CompositeImplicitAutograd")
        pairs = [pair_function(folder, spec) for spec in specs]  # which call all_reduce
        library.define("call(str pair, Tensor[] inputs) -> Tensor[]")
        library.impl("call", lambda pair, inputs: list(pairs[int(pair)](*inputs)), "CompositeImplicitAutograd")
        yield


def know_groups(folder, request, known=set()):
    """Creates placeholders for the process groups that collectives name; the groups exist where the code will run."""
    halves = [spec[half] for spec in request["pairs"] for half in ("forward", "backward")]
    names = set()
    for file in ("unit.pt", *halves):
        graph = torch.jit.load(folder / file).graph
        for node in graph.findAllNodes("optrush::all_reduce"):
            names.add(list(node.inputs())[1].toIValue())
    if names and not torch.distributed.is_initialized():
        from torch.testing._internal.distributed.fake_pg import FakeStore

        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    for name in sorted(names - known):
        torch._C._distributed_c10d._register_process_group(name, torch.distributed.group.WORLD)
    known |= names


def keep_only(graph, slots):
    """Selective checkpointing: tags mark what the partitioner must save. It may recompute everything else."""
    kept = set().union(*(CALLS_OF_SLOT[slot] for slot in slots))
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        packet = getattr(node.target, "overloadpacket", None)
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE if packet in kept else CheckpointPolicy.PREFER_RECOMPUTE
        node.meta["ac_graph_id"] = 0


def attention_as_on_host(names, inputs):
    """The kernels that scaled_dot_product_attention may take, in the host's order."""
    # The fused kernel declares its log-sum-exp as fp32 but returns fp64, so code compiled for it fails.
    if any(tensor.dtype == torch.float64 for tensor in inputs):
        names = ["math"]
    return sdpa_kernel([ATTENTION_KERNELS[name] for name in names], set_priority=True)


def causal(node):
    names = [argument.name for argument in node.target._schema.arguments]
    given = dict(zip(names, node.args)) | node.kwargs
    return given.get("is_causal", False)


def flops_of(module):
    """As the host counts eager code: matmuls, and fused attention with 2 of them forward and 5 backward, causal ones
    half."""
    total = 0
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        packet = getattr(node.target, "overloadpacket", None)
        shape = lambda argument: node.args[argument].meta["val"].shape
        name = getattr(packet, "__name__", "")
        if packet in (ATEN.mm, ATEN.bmm, ATEN._scaled_mm, ATEN._scaled_mm_v2):
            total += 2 * shape(0).numel() * shape(1)[-1]
        elif packet in (ATEN.addmm, ATEN.baddbmm):
            total += 2 * shape(1).numel() * shape(2)[-1]
        elif name.startswith("_scaled_dot_product_"):
            backward = "backward" in name
            matmuls = (5 if backward else 2) / (2 if causal(node) else 1)
            total += matmuls * 2 * shape(backward).numel() * shape(backward + 1)[-2]
    return total


def drop_outputs(module, keep):
    output = next(node for node in module.graph.nodes if node.op == "output")
    output.args = (tuple(value for value, kept in zip(output.args[0], keep) if kept),)
    module.graph.eliminate_dead_code()
    module.recompile()


def saved_and_gradients(forward, backward):
    """Leaves out saved tensors that are inputs of the forward, and gradients of inputs that need none."""
    placeholders = {node.name: i for i, node in enumerate(n for n in forward.graph.nodes if n.op == "placeholder")}
    outputs = next(node for node in forward.graph.nodes if node.op == "output").args[0]
    saved, keep, kept = [], [True], 1
    for value in outputs[1:]:
        is_input = value.op == "placeholder"
        saved.append(["input", placeholders[value.name]] if is_input else ["output", kept])
        keep.append(not is_input)
        kept += not is_input
    drop_outputs(forward, keep)
    gradients = [value is not None for value in next(n for n in backward.graph.nodes if n.op == "output").args[0]]
    drop_outputs(backward, gradients)
    return saved, gradients


def example_inputs(module):
    examples = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            fake = node.meta["val"]
            examples.append(
                torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device).zero_()
            )
    return examples


def lower_unit(folder, request):
    """Returns what package_aoti() takes, and the unit's meta.json."""
    torch.set_num_threads(request["threads"])
    torch._C._jit_set_profiling_executor(False)  # keeps the graph as it was traced
    inputs = tuple(make_input(spec) for spec in request["inputs"])

    activations = request["activations"]
    if activations["policy"] == "budget":
        functorch_config.activation_memory_budget = activations["budget"]
    functorch_config.recompute_views = True

    with defined_operators(folder, request["pairs"]):
        know_groups(folder, request)
        unit = torch.jit.load(folder / "unit.pt")
        with torch.jit.optimized_execution(False), attention_as_on_host(request["attention"], inputs):
            joint = aot_export_joint_simple(
                lambda *arguments: tuple(unit(*arguments)),
                inputs,
                trace_joint=True,
                decompositions=select_decomp_table(),
            )
    with detect_fake_mode([node.meta["val"] for node in joint.graph.nodes if node.op == "placeholder"]):
        joint_graph_passes(joint)
        if activations["policy"] == "selective":
            keep_only(joint.graph, activations["keep"])
        forward, backward = min_cut_rematerialization_partition(joint, None, num_fwd_outputs=1)
    saved, gradients = saved_and_gradients(forward, backward)
    flops = {"forward": flops_of(forward), "backward": flops_of(backward)}

    options = inductor.list_mode_options(request["mode"])  # of a mode without CUDA graphs
    with torch.no_grad():
        files = {
            name: inductor.aot_compile(module, tuple(example_inputs(module)), options=options)
            for name, module in (("forward", forward), ("backward", backward))
        }
    return files, {"saved": saved, "gradients": gradients, "flops": flops}


def set_options(build, device):
    """Sets Inductor's options for all units. Threads that build read them, so they are set globally.

    Inductor shares its test libraries of instruction sets with its other users, so they are built before this call.
    """
    options = inductor_config.aot_inductor
    options.output_path = str(build)
    options.package = True
    # The process that loads the code has opened LibTorch's libraries. "libtorch.so" would also load the GPU's.
    options.link_libtorch = False
    # The code between the kernels is long and computes nothing, but a GPU may wait for it.
    if device == "cpu":
        options.compile_wrapper_opt_level = "O0"


@contextlib.contextmanager
def built_beside(workers):
    """Inductor's last step runs the C++ compiler and returns a list of files. Here it returns the list at once, and a
    worker fills it. When this ends, all lists are full."""
    compile_here, builds = codecache.AotCodeCompiler.compile, []

    def start(graph, *arguments, **named):
        debug, files = V.debug, []

        def build():
            with V.set_graph_handler(graph), V.set_debug_handler(debug):
                files.extend(compile_here(graph, *arguments, **named))

        builds.append(workers.submit(contextvars.copy_context().run, build))
        return files

    codecache.AotCodeCompiler.compile = start
    try:
        yield
        for build in builds:
            build.result()
    finally:
        codecache.AotCodeCompiler.compile = compile_here


def show_torch_to_kernels():
    """Makes LibTorch visible to the kernels that this process times (max-autotune), because `link_libtorch` is off."""
    for name in ("libtorch_cpu.so", "libtorch_cuda.so"):
        library = Path(torch.__file__).parent / "lib" / name
        if library.exists() and (name == "libtorch_cpu.so" or torch.cuda.is_available()):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def include_types_of_fp8():
    """Includes the headers of at::Float8_…, which code for a CPU uses without a declaration."""
    headers = "".join(f"\n#include <c10/util/Float8_{kind}.h>" for kind in ("e4m3fn", "e5m2"))
    declared = headers + "\nnamespace at { using namespace c10; }"
    # torch 2.15 has one function for code that is loaded and one for a library.
    for name in ("get_device_include_path", "get_device_include_path_jit", "get_device_include_path_aot"):
        if given := getattr(CppWrapperCpu, name, None):
            setattr(CppWrapperCpu, name, staticmethod(lambda device, given=given: given(device) + declared))


def try_instruction_sets_here():
    """Tests the CPU's instruction sets in this process.

    Inductor loads a library for each set in a new Python, which imports torch for two seconds. Loading executes no code
    of the library, so this process can load it. Inductor takes the first set of a list in order of preference: unless
    the environment chooses another set, the next ones need no test.
    """
    def load(command, **_):
        try:
            exec(command[command.index("-c") + 1], {})
        except OSError as error:
            raise subprocess.CalledProcessError(1, command) from error

    # torch 2.11 calls `check_call`, torch 2.15 `run`.
    cpu_vec_isa.subprocess = SimpleNamespace(**{**vars(subprocess), "check_call": load, "run": load})
    if "ATEN_CPU_CAPABILITY" not in os.environ:
        cpu_vec_isa.supported_vec_isa_list = FirstOf(cpu_vec_isa.supported_vec_isa_list)


class FirstOf(list):
    """Iterates up to the first set that works."""

    def __iter__(self):
        for isa in super().__iter__():
            yield isa
            if all(flag in cpu_vec_isa.x86_isa_checker() for flag in str(isa).split()) and isa:
                return


def device_of(requests):
    return requests[0]["inputs"][0]["device"].split(":")[0]


def tools_for(requests, build):
    if device_of(requests) != "cuda":
        return contextlib.nullcontext()
    return cuda_tools.ready(Path(torch.__file__).parent, int(torch.version.cuda.split(".")[0]), build)


def prepare():
    show_torch_to_kernels()
    include_types_of_fp8()
    wrappers.read_devices_without_regex()
    wrappers.compile_the_interface_once()
    try_instruction_sets_here()
    cpu_vec_isa.pick_vec_isa()


def compile_units(folders, requests, build):
    prepare()
    set_options(build, device_of(requests))
    # Nothing else runs while kernels are timed (max-autotune).
    timed = requests[0]["mode"].startswith("max-autotune")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        if not timed:
            workers.submit(wrappers.compile_ahead, device_of(requests))
        with contextlib.nullcontext() if timed else built_beside(workers):
            lowered = [lower_unit(folder, request) for folder, request in zip(folders, requests)]
    for folder, (files, meta) in zip(folders, lowered):
        package_aoti(str(folder / "unit.pt2"), files)
        (folder / "meta.json").write_text(json.dumps(meta))


def main(folders):
    requests = [json.loads((folder / "request.json").read_text()) for folder in folders]
    try:
        # In the unit's folder, so a killed process leaves nothing in the system's temporary folder.
        with tempfile.TemporaryDirectory(dir=folders[0].resolve()) as build, tools_for(requests, build):
            compile_units(folders, requests, build)
    except cuda_tools.Missing as missing:
        (folders[0] / "missing.json").write_text(json.dumps({"what": str(missing), "cure": missing.cure}))
        sys.exit(f"{missing}\n{missing.cure}")


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
