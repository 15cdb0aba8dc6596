"""inductor_lower.py CACHE OUT: writes Inductor's GPU kernels and the calls between them as Python, beside their graphs.

It does so for each unit that the plugin `compile` has in CACHE. It runs on the stand-in, which computes nothing, so
constants are not folded. inductor_values.py reads OUT/UNIT/HALF.kernels.py, HALF.graph.py and HALF.json (inputs),
where HALF is forward or backward."""
import importlib.util
import json
import sys
from pathlib import Path

import torch._inductor.config as config
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.graph import GraphLowering


def helper_of(folder):
    """The plugin's compiler script that compiled this unit."""
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("helper", folder / "inductor.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(folder))
    return module


def lower_unit(folder, out):
    helper, halves, sources = helper_of(folder), iter(("forward", "backward")), []
    request = json.loads((folder / "request.json").read_text())
    GraphLowering.save_output_code = staticmethod(sources.append)

    def lower(module, examples, options):
        with config.patch(options):
            compile_fx_inner(module, list(examples))
        half = next(halves)
        (out / f"{half}.kernels.py").write_text(sources[-1])
        (out / f"{half}.graph.py").write_text(module.code)
        inputs = [[list(tensor.shape), list(tensor.stride()), str(tensor.dtype).removeprefix("torch.")]
                  for tensor in examples]
        (out / f"{half}.json").write_text(json.dumps(inputs))

    helper.inductor.aot_compile = lower
    with helper.tools_for([request]):
        helper.prepare()
        helper.lower_unit(folder, request)


if __name__ == "__main__":
    config.joint_graph_constant_folding = False
    config.fx_graph_cache = False
    cache, out = map(Path, sys.argv[1:])
    for request in sorted(cache.glob("*/request.json")):
        (out / request.parent.name).mkdir(parents=True)
        lower_unit(request.parent, out / request.parent.name)
