"""The script that `plan-mesh --script ROW` prints is a training of the row: its step needs the memory of the plan."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
DENSE = ["llama-3.1-8b", "n_layers=8"]
MIXTURE = ["dim=2048", "n_layers=8", "n_heads=16", "n_kv_heads=8", "ffn_dim=4096", "vocab_size=32000", "n_experts=16",
           "experts_per_token=4", "expert_ffn_dim=1024"]
# The rows to try: a model, options of the plan, and the sizes of a mesh. Sizes that are not named are 1.
CASES = {
    "ZeRO-1": (DENSE, [], {"dp": 8, "stage": 1}),
    "ZeRO-2": (DENSE, [], {"dp": 8, "stage": 2}),
    "ZeRO-3": (DENSE, [], {"dp": 8, "stage": 3}),
    "copies and a ring": (DENSE, [], {"dp": 4, "cp": 2, "stage": 0}),
    "ZeRO-1 and a ring": (DENSE, [], {"dp": 4, "cp": 2, "stage": 1}),
    "ZeRO-2 and a ring": (DENSE, [], {"dp": 4, "cp": 2, "stage": 2}),
    "tensors": (DENSE, [], {"dp": 4, "tp": 2, "stage": 0}),
    "ZeRO-3 and tensors": (DENSE, [], {"dp": 4, "tp": 2, "stage": 3}),
    "pipeline of chunks": (DENSE, [], {"pp": 2, "dp": 4, "stage": 1, "chunks": 2}),
    "pipeline of chunks and ZeRO-3": (DENSE, [], {"pp": 2, "dp": 4, "stage": 3, "chunks": 2}),
    "pipeline and tensors": (DENSE, [], {"pp": 2, "dp": 2, "tp": 2}),
    "pipeline and a ring": (DENSE, [], {"pp": 2, "dp": 2, "cp": 2}),
    "pipeline of chunks and copies": (DENSE, [], {"pp": 2, "dp": 4, "stage": 0, "chunks": 2}),
    "experts": (MIXTURE, ["--seq-len", "4096"], {"dp": 2, "ep": 4, "stage": 0}),
    "experts and ZeRO-3": (MIXTURE, ["--seq-len", "4096"], {"dp": 2, "ep": 4, "stage": 3}),
    "fp32 weights": (DENSE, ["--dtype", "mixed"], {"dp": 8, "stage": 3}),
}


def output(*words):
    done = subprocess.run([OPTRUSH, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compare(name, work):
    model, options, sizes = CASES[name]
    plan = ["plan-mesh", "--model", *model, "--devices", "8", "--hardware", "h100", "--global-batch", "64",
            "--top", "1000", *options]
    wanted = {"pp": 1, "dp": 1, "cp": 1, "ep": 1, "tp": 1, **sizes}
    rows = json.loads(output(*plan, "--json"))["mixes"]
    row = next(number for number, found in enumerate(rows, 1) if wanted.items() <= found["mix"].items())
    script = work / "row.lua"
    script.write_text(output(*plan, "--script", row))
    stepped = json.loads(output("run", script, "--dry-run", "--json", "--as-gpu", "h100"))[0]["plans"][0]
    mix = rows[row - 1]["mix"]
    assert stepped["problem"]["accumulation"] == mix["accumulation"], (mix, stepped["problem"])
    planned, peak = rows[row - 1]["memory"]["total"], stepped["memory"]["peak_bytes"]
    print(f"{name}: {mix}: {planned / 1e9:.2f} GB, its step {peak / 1e9:.2f} GB, {planned / peak - 1:+.2%}", flush=True)
    return abs(planned / peak - 1) < 0.015


def refuses_rows_that_do_not_exist():
    for row, hint in (("1000", "give a row from 1 to"), ("0", "--script: Value 0 not in range")):
        done = subprocess.run([OPTRUSH, "plan-mesh", "--model", "tiny", "--devices", "2", "--script", row],
                              capture_output=True, text=True)
        assert done.returncode == 2 and hint in done.stderr, done.stderr


if __name__ == "__main__":
    refuses_rows_that_do_not_exist()
    with tempfile.TemporaryDirectory() as folder:
        wrong = [name for name in sys.argv[1:] or CASES if not compare(name, pathlib.Path(folder))]
    assert not wrong, f"above 1.5 %: {wrong}"
