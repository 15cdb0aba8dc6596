"""Sliding windows, packed documents, latent attention and soft caps with `kernel = "cudnn"` on the stand-in.

Graphs of cuDNN run in place of FlashAttention, count the same FLOPs, and get addresses on the device. cuDNN of the
stand-in accepts every graph; the test `cudnn_graphs` asks the real one."""
import json
import tempfile
from pathlib import Path

from compiled_parts import plans_of, results_of, traces_by_rung
from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

STEPS = 5  # of attention_graphs.lua: warm-up and timed
LAYERS = 2


def write_documents(file):
    lines = [json.dumps({"tokens": [(7 * i + j) % 64 for j in range(9 + 5 * (i % 11))]}) for i in range(96)]
    file.write_text("\n".join(lines) + "\n")


def attention_of(trace):
    lines = [line for line in trace.splitlines() if line.startswith(("launch ", "call "))]
    return {name: sum(name in line for line in lines) for name in ("cudnn graph of", "flash_fwd", "flash_bwd")}


def models_of_graphs_only(folder):
    """The plan runs operators of LibTorch, and the run a graph: both count the same FLOPs."""
    words = (OPTRUSH, "run", HERE / "attention_graphs.lua", "--out", folder, "--arg", "only=graphs")
    ended = on_stand_in(folder / "counts", *words, trace=folder / "trace.%p")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert_no_faults(folder / "counts")
    report = folder / "attention_graphs/local"
    results = results_of(report)
    plans = plans_of(report)
    for name, what in (("values", "values of another width than keys"), ("capped", "soft caps of scores")):
        counted, planned = results[name]["costs"]["total"], plans[name]["costs"]["total"]
        assert counted["noted_flops"] == planned["attention_flops"] > 0, (name, counted, planned)
        assert counted["attention_flops"] == planned["noted_flops"] == 0, (name, counted, planned)
        assert f"{what} run graphs of cuDNN" in results[name]["notes"], results[name]["notes"]
    refused = on_stand_in(folder / "refused", *words, arch="sm_80")
    for what in ("values of another width than keys", "soft caps of scores"):
        assert f"cuDNN has no kernel with {what} on this GPU" in refused.stdout + refused.stderr, refused.stderr


def main(folder, arch, of_graphs, of_flash):
    """`of_graphs`: the combinations with cuDNN that run its graphs; `of_flash`: those that run FlashAttention."""
    names = (*of_graphs, *of_flash)
    only = [word for name in names for word in ("--only", f"{name} + *")]
    write_documents(folder / "documents.jsonl")
    ended = on_stand_in(folder / "counts", OPTRUSH, "run", HERE / "attention_graphs.lua", "--out", folder, "--arg",
                        f"documents={folder / 'documents.jsonl'}", *only, arch=arch, trace=folder / "trace.%p")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert_no_faults(folder / "counts")
    results = results_of(folder / "attention_graphs/local")
    traces = traces_by_rung(folder)
    for name in names:
        by = {kernel: attention_of(traces[f"{name}-{kernel}"]) for kernel in ("flash", "cudnn")}
        # A checkpoint computes the forward again.
        calls = STEPS * LAYERS * (3 if name == "checkpointed" else 2)
        assert by["flash"]["cudnn graph of"] == 0 and by["flash"]["flash_fwd"] > 0, by
        if name in of_graphs:
            assert by["cudnn"] == {"cudnn graph of": calls, "flash_fwd": 0, "flash_bwd": 0}, (name, by)
        else:
            assert by["cudnn"]["cudnn graph of"] == 0 and by["cudnn"]["flash_fwd"] > 0, (name, by)
        counted = [results[f"{name} + {kernel}"]["flops_per_token"] for kernel in ("flash", "cudnn")]
        assert counted[0] == counted[1], (name, counted)
        by_graphs = "graphs of cuDNN" in " ".join(results[f"{name} + cudnn"]["notes"])
        assert by_graphs == (name in of_graphs), results[f"{name} + cudnn"]["notes"]


CASES = (("sm_90", ("window", "documents", "both", "recorded", "checkpointed"), ()),
         ("sm_80", ("window",), ("documents",)))
for case in CASES:
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch), *case)
with tempfile.TemporaryDirectory() as scratch:
    models_of_graphs_only(Path(scratch))
