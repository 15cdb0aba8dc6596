"""`cuda_graphs` with each kind of batch on the stand-in: a replayed step does the same work as an eager step.

The plan counts the same launches. Before a replay the tensors of each micro-batch are copied to the recorded batch."""
import json
import tempfile
from collections import Counter
from pathlib import Path

from compiled_parts import plans_of, results_of, traces_by_rung
from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

STEPS = 5  # of graphs.lua: warm-up and timed
# Copies into the recorded batches: tokens, labels and positions of each micro-batch, or its input.
COPIED = {"tokens": 3, "documents": 2 * 3, "activations": 1}
OF_THE_BATCH = 3  # launches that move the batch to the device; a plan leaves them out


def write_documents(file):
    """Every document has the same number of prompt, trained and padding tokens."""
    lines = [json.dumps({"tokens": [(7 * i + j) % 64 for j in range(24)], "prompt_tokens": 8}) for i in range(64)]
    file.write_text("\n".join(lines) + "\n")


def device_work(lines, *further):
    """Launches, calls and copies on the device, and `further` lines, named as in a recorded step."""
    named = [line if line.startswith(("launch ", "call ")) else "call " + line.rstrip("0123456789 ") for line in lines
             if line.startswith(("launch ", "call ", "copy device to device ", "memset ", *further))]
    return Counter(named)


def work_of_eager_step(trace):
    """From the mark behind the step's data to the copies of its loss and norm to the host."""
    lines = trace.splitlines()
    marks = [number for number, line in enumerate(lines) if line == "time"]
    each = len(marks) // STEPS
    # In torch 2.15 the norm of gradients gets the sizes of its tensors from the host.
    return device_work(lines[marks[-each + 1]:marks[-1]], "copy host to device ")


def work_of_replayed_step(trace):
    """The work before the copies of loss and norm, which keep them from the next replay; and the copies before it."""
    before, replay = trace.rsplit("\nreplay\n", 1)
    lines = replay.splitlines()
    end = next(number for number, line in enumerate(lines) if line.startswith("copy device to device "))
    copies = device_work(before.rsplit("\ntime\n", 1)[1].splitlines())
    assert all("copy" in copy for copy in copies), copies
    return device_work(lines[:end]), copies.total()


def main(folder):
    write_documents(folder / "documents.jsonl")
    ended = on_stand_in(folder / "counts", OPTRUSH, "run", HERE / "graphs.lua", "--out", folder, "--arg",
                        f"documents={folder / 'documents.jsonl'}", trace=folder / "trace.%p")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert_no_faults(folder / "counts")
    report = folder / "graphs/local"
    results = results_of(report)
    plans = plans_of(report)
    traces = traces_by_rung(folder)
    for kind, copied in COPIED.items():
        eager = work_of_eager_step(traces[f"{kind}-eager"])
        replayed, copies = work_of_replayed_step(traces[f"{kind}-graph"])
        assert eager == replayed and eager.total() > 50, (kind, eager - replayed, replayed - eager)
        assert copies == copied, f"{kind}: {copies} copies into the recorded batches, {copied} were expected"
        both = (plans[f"{kind} + eager"], results[f"{kind} + eager"])
        planned, counted = (of["costs"]["total"]["launches"] for of in both)
        assert planned <= counted <= planned + OF_THE_BATCH, (kind, planned, counted)
        print(f"{kind}: {planned} launches planned, {eager.total()} in a replay", flush=True)


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
