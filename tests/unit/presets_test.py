"""The presets have the published numbers of parameters, counted by the worker's plan."""

import json
import os
import pathlib
import subprocess
import tempfile

# Model cards of meta-llama, allenai, Qwen, HuggingFaceTB, google and mistralai.
PUBLISHED = {
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "olmo-1b": 1_176_764_416,
    "olmo-2-1b": 1_484_916_736,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "smollm3-3b": 3_075_098_624,
    "gemma-3-270m": 268_098_176,
    "gemma-3-1b": 999_885_952,
    "mistral-7b": 7_241_732_096,
}
OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin" / "optrush"


def planned_parameters(preset, folder):
    script = pathlib.Path(folder) / "preset.lua"
    script.write_text(
        'local rush = require "optrush"\n'
        f'local exp = rush.experiment {{ name = "p", model = rush.llama "{preset}", data = rush.random() }}\n'
        'exp:ladder { rush.rung("fused", "fused_adamw") }\n'
        "exp:run { rounds = 1 }\n"
    )
    # Planned for a GPU that has room for all presets, because a rung without room has no plan.
    command = [OPTRUSH, "run", script, "--dry-run", "--json", "--as-gpu", "2000"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return {plan["parameters"]["count"] for plan in json.loads(done.stdout)[0]["plans"] if plan}


for name, parameters in PUBLISHED.items():
    with tempfile.TemporaryDirectory() as work:
        planned = planned_parameters(name, work)
    assert planned == {parameters}, f"{name}: {planned}, published {parameters}"
    print(f"{name}: {parameters:,} parameters")
