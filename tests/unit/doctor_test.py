"""`optrush-worker doctor`: its JSON keeps to the schema, and its page and messages have the main facts."""
import json
import os
import pathlib
import subprocess
import tempfile

import jsonschema

WORKER = os.path.join(os.environ["OPTRUSH_BUILD_DIR"], "bin", "optrush-worker")
SCHEMA = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"], "docs/schema/context.schema.json")


def doctor(*arguments):
    return subprocess.run([WORKER, "doctor", "--quick", *arguments], capture_output=True, text=True)


def without_gpu(*arguments):
    return subprocess.run([WORKER, "doctor", "--quick", *arguments], capture_output=True, text=True,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "context.json")
    done = doctor("--device", "cpu", "--threads", "1", "--json", file)
    assert done.returncode == 0, done.stderr
    with open(file) as text:
        context = json.load(text)

schema = json.loads(SCHEMA.read_text())
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.Draft202012Validator(schema).validate(context)

peak = context["peak"]
assert context["threads"] == 1
assert peak["source"] == "measured" and peak["device"] == context["cpu"]["name"]
assert peak["mfu_denominator"] == max(peak["dtype_flops"]["fp32"], peak["dtype_flops"]["bf16"])
assert all(flops > 0 for flops in peak["dtype_flops"].values())
for word in ("CPU", "GPU", "Software", "Matmul", "Memory", "Plugins", "Python", context["cpu"]["name"]):
    assert word in done.stdout, word

refused = without_gpu("--device", "cuda")
assert refused.returncode == 1 and "no GPU can be used" in refused.stderr, refused.stderr
misspelt = doctor("--device", "cdua")
assert misspelt.returncode != 0 and "did you mean 'cuda'" in misspelt.stderr, misspelt.stderr

# doctor and a request for the GPU both report a driver that is too old, with the cure.
old_driver = {**os.environ, "LD_LIBRARY_PATH": os.environ["OPTRUSH_OLD_DRIVER"]}
ask_for_gpu = [WORKER, "doctor", "--quick", "--device", "cuda"]
refused = subprocess.run(ask_for_gpu, capture_output=True, text=True, env=old_driver)
assert refused.returncode == 1, refused
for words in ("too old for CUDA", "it has CUDA 12.4", "580 or newer", "--device cpu"):
    assert words in refused.stderr, refused.stderr

# doctor gives the same reason for a plugin as a run with it.
with tempfile.TemporaryDirectory() as folder:
    spec, context = os.path.join(folder, "spec.json"), os.path.join(folder, "context.json")
    pathlib.Path(spec).write_text(json.dumps({"plugins": [{"name": "tf32"}], "device": "cpu"}))
    done = without_gpu("--device", "cpu", "--json", context)
    assert done.returncode == 0, done.stderr
    reasons = {plugin["name"]: plugin["reason"] for plugin in json.loads(pathlib.Path(context).read_text())["plugins"]}
    assert reasons["tf32"].startswith("needs CUDA: ") and reasons["lora"] == "", reasons
    subprocess.run([WORKER, "run", "--spec", spec, "--out", folder], check=True,
                   env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    result = json.loads(pathlib.Path(folder, "result.json").read_text())
    assert result["status"] == "skipped" and reasons["tf32"] in result["reason"], result
