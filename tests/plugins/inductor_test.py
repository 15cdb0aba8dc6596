"""The helper of the plugin compile: attention is traced with the kernels that the host chose."""
import os
import pathlib
import subprocess
import sys

import torch
from torch._inductor.cpu_vec_isa import valid_vec_isa_list
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, str(pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"], "plugins/optimizations/compile")))
import inductor  # noqa: E402


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
# Code for the fused kernel in double precision could not run.
assert not is_fused(calls_of_attention(["flash"], torch.float64))
# Every name that the host may send is known, and every slot that it lets through has calls.
for name in ("math", "flash", "efficient", "cudnn"):
    assert inductor.ATTENTION_KERNELS[name]
assert set(inductor.CALLS_OF_SLOT) == {"attention", "linear"}
# The instruction sets that are tried in this process are those that Inductor finds by itself.
LIST_SETS = "from torch._inductor.cpu_vec_isa import valid_vec_isa_list; print([str(isa) for isa in valid_vec_isa_list()])"
alone = subprocess.run([sys.executable, "-c", LIST_SETS], capture_output=True, text=True, check=True).stdout.strip()
inductor.try_instruction_sets_here()
assert str([str(isa) for isa in valid_vec_isa_list()]) == alone, alone
print("passed")
