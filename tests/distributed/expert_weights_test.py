"""`optrush weights` writes the same folder for a mixture of experts however its ranks divided the model.

Runs: one process, expert parallelism, tensor parallelism, and both. The files and tensor names are equal; the values
agree to 1e-9 in fp64.
"""
import json
import os
import subprocess
import tempfile
from pathlib import Path

from safetensors.torch import load_file

OPTRUSH = Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "mixture",
  model = rush.llama("nano", {
    attention_bias = "qkv", n_experts = 4, expert_ffn_dim = 41, shared_expert_ffn_dim = 24,
  }),
  threads = 1,
  train = { micro_batch = 4, seq_len = 16, steps = 4, warmup = 1, lr = 1e-2, dtype = "fp64" },
  plugins = { PLUGINS },
  save = { every = 5 },
}
exp:grid { {
  rush.rung("experts", { plugins = { "expert_parallel", "ddp" }, train = { world_size = 2, micro_batch = 2 } }),
  rush.rung("cuts", { plugins = { "tensor_parallel" }, train = { world_size = 2 } }),
  rush.rung("both", {
    plugins = { "expert_parallel", { "tensor_parallel", { sequence = true } }, "fsdp" },
    train = { world_size = 4, micro_batch = 2 },
  }),
} }
exp:run { rounds = 1 }
"""


def optrush(folder, *words):
    done = subprocess.run([OPTRUSH, *map(str, words)], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"


def written(folder, plugins):
    """{rung: the folder that `optrush weights` wrote from the rung's run}"""
    (folder / "mixture.lua").write_text(SCRIPT.replace("PLUGINS", plugins))
    optrush(folder, "run", "mixture.lua", "--device", "cpu", "--resume")
    folders = {}
    for run in sorted((folder / "reports/mixture/local/runs").glob("*-r1")):
        spec, result = (json.loads((run / name).read_text()) for name in ("spec.json", "result.json"))
        assert result["status"] == "ok", result
        folders[spec["rung"]] = folder / f"weights-{run.name}"
        optrush(folder, "weights", run, folders[spec["rung"]], "--dtype", "fp64")
    assert len(folders) == 4, folders
    return folders


def compare(folders, weights, experts):
    one = folders.pop("base")
    expected = load_file(one / weights)
    assert sum(".experts." in name for name in expected) == experts, expected.keys()
    for rung, other in folders.items():
        assert {file.name for file in one.iterdir()} == {file.name for file in other.iterdir()}, rung
        for file in one.glob("*.json"):
            assert file.read_text() == (other / file.name).read_text(), (rung, file.name)
        found = load_file(other / weights)
        assert list(found) == list(expected), rung
        for name, value in expected.items():
            apart = (found[name] - value).abs().max() / value.abs().max()
            assert found[name].shape == value.shape and apart < 1e-9, (rung, name, apart)


for plugins, weights, experts in (("", "model.safetensors", 2 * 4 * 3),
                                  ('{ "lora", { rank = 3, target_modules = { "q_proj", "gate_proj", "down_proj" } } }',
                                   "adapter_model.safetensors", 2 * 4 * 2 * 2)):
    with tempfile.TemporaryDirectory() as scratch:
        compare(written(Path(scratch), plugins), weights, experts)
