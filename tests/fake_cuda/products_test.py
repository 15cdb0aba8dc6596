"""`cublaslt_matmul` on the stand-in: a step has the same work as LibTorch's, with each product by cuBLASLt.

Memory and launches are as planned. Shapes are timed once for a card: a later run reads the choices, another card has
its own, and all ranks take the same. Times of the stand-in are times of its host, so ranks may measure others."""
import json
import tempfile
from collections import Counter
from pathlib import Path

from compiled_parts import plans_of, results_of, traces_of
from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

MARKS = 7  # times of a step: before and after each phase
BLOCK = 2 << 20  # bytes; the caching allocator's block for small tensors
BY_CUBLAS, OWN = "call cublas", "call cublasLtMatmul "
LAST = 20  # products that are compared; a step has more
KINDS = ["fp32", "bf16", "adapter"]
OF_THE_BATCH = 3  # launches that move the batch to the device; a plan leaves them out


def on_one_cache(folder, *words, arch="sm_90", devices=1):
    folder.mkdir(exist_ok=True)
    kept = f"OPTRUSH_CACHE={folder.parent / 'cache'}"  # on_fake_cuda.py would remove a folder of its own
    done = on_stand_in(folder / "counts", "env", kept, OPTRUSH, *words, arch=arch, devices=devices,
                       trace=folder / "trace.%p")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_no_faults(folder / "counts")


def train(folder, *words, devices=1):
    on_one_cache(folder, "run", HERE / "products.lua", "--out", folder, *words, devices=devices)
    return folder / "products/local"


def train_again(report, folder, arch="sm_90"):
    """The result of the rung "bf16 + own" of the report, trained once more."""
    spec = next(report.glob("runs/*-bf16-own-r1/spec.json"))
    on_one_cache(folder, "worker", "--spec", spec, "--out", folder / "run", arch=arch)
    return json.loads((folder / "run/result.json").read_text())


def counters_of(result):
    return {counter["name"]: counter["value"] for counter in result["counters"]["cublaslt_matmul"]}


def timed(result):
    return counters_of(result)["timed shapes of products"]


def products_of(lines):
    """The products of two matrices, without the algorithm, and whether cuBLASLt computed them."""
    single = [line for line in lines if line.startswith(BY_CUBLAS) and "Batched" not in line]
    return len(single), sum(line.startswith(OWN) for line in single)


def last_steps(folder):
    """{run: lines of its last step}"""
    found = {}
    for command, trace in traces_of(folder):
        if "-r1/spec.json" not in command or "\ntime\n" not in trace:
            continue
        name = command.split("-r1/spec.json")[0].rsplit("/", 1)[1].split("-", 1)[1]
        lines = trace.splitlines()
        marks = [number for number, line in enumerate(lines) if line == "time"]
        found[name] = lines[marks[-MARKS]:marks[-1]]
    return found


def kinds_of_work(lines):
    """Launches and copies by name, with each product of two matrices as one kind."""
    named = ["product" if line.startswith(BY_CUBLAS) and "Batched" not in line else line for line in lines
             if line.startswith(("launch ", "call ", "copy device to device ", "memset "))]
    return Counter(named)


def a_step_has_the_same_work(report, steps):
    plans = plans_of(report)
    results = results_of(report)
    for kind in KINDS:
        libtorch, own = steps[f"{kind}-libtorch"], steps[f"{kind}-own"]
        assert kinds_of_work(libtorch) == kinds_of_work(own), (kind, kinds_of_work(libtorch) - kinds_of_work(own),
                                                               kinds_of_work(own) - kinds_of_work(libtorch))
        products, by_lt = products_of(own)
        result, plan = results[f"{kind} + own"], plans[f"{kind} + own"]
        assert products == by_lt == counters_of(result)["products by cuBLASLt"] > 30, (kind, products, by_lt)
        planned, counted = plan["costs"]["total"]["launches"], result["costs"]["total"]["launches"]
        assert planned <= counted <= planned + OF_THE_BATCH, (kind, planned, counted)
        for what in ("peak_allocated", "peak_reserved"):
            assert result["memory"][what] == results[f"{kind} + LibTorch"]["memory"][what], (kind, what)
        assert abs(plan["memory"]["peak_bytes"] - result["memory"]["peak_allocated"]) <= BLOCK, (kind, plan["memory"])
        print(f"{kind}: {products} products in a step", flush=True)
    sums = [line for line in steps["bf16-own"] if " bf16 bf16 -> fp32" in line]
    assert len(sums) > 0, "the loss sums the gradient of its matrix in fp32"


def a_recorded_step_has_the_products(folder):
    """A capture takes the choices of the first step, and waits for nothing."""
    trace = next(trace for command, trace in traces_of(folder) if "graph-own-r1/spec.json" in command)
    replayed = trace.rsplit("\nreplay\n", 1)[1].splitlines()
    products, by_lt = products_of(replayed)
    assert products == by_lt > 30, (products, by_lt)


def choices_are_kept(report, folder):
    first = {name: timed(result) for name, result in results_of(report).items() if name.endswith("own")}
    cache = folder / "cache/cublaslt"
    files = sorted(cache.glob("*.json"))
    assert len(files) == 1 and min(first[f"{kind} + own"] for kind in KINDS) > 0, (files, first)
    whole = files[0].read_text()
    kept = json.loads(whole)
    assert kept["for"]["architecture"] == "sm_90" and len(kept["algorithms"]) >= sum(first.values()), (kept, first)

    # As if the fourth algorithm had been the fastest: its number is in the third of eight words.
    kept["algorithms"] = {shape: text[:32] + f"{3:016x}" + text[48:] for shape, text in kept["algorithms"].items()}
    files[0].write_text(json.dumps(kept))
    assert timed(train_again(report, folder / "again")) == 0 and json.loads(files[0].read_text()) == kept
    products = [line for line in last_steps(folder / "again")["bf16-own"] if line.startswith(OWN)]
    assert products and all(line.endswith(" algorithm 3") for line in products), products
    shapes = timed(train_again(report, folder / "other card", arch="sm_100"))
    assert shapes == first["bf16 + own"] and len(list(cache.glob("*.json"))) == 2, (shapes, first)

    files[0].write_text(whole[:-9])
    result = train_again(report, folder / "damaged")
    assert timed(result) == shapes, result["counters"]
    assert any("are made anew" in note and str(files[0]) in note for note in result["notes"]), result["notes"]
    assert json.loads(files[0].read_text())["for"] == kept["for"]


def ranks_take_the_same(folder):
    """The last products of both ranks, with their algorithms."""
    (folder / "cache").rename(folder / "cache of one rank")
    train(folder / "ranks", "--arg", "ranks=yes", devices=2)
    traces = list(traces_of(folder / "ranks"))
    for kind in ("copies-own", "parts-own"):
        both = [[line for line in trace.splitlines() if line.startswith(OWN)][-LAST:] for command, trace in traces
                if f"{kind}-r1/spec.json" in command and OWN in trace]
        assert len(both) == 2 and both[0] == both[1] and len(both[0]) == LAST, (kind, both)


def main(folder):
    report = train(folder / "first")
    a_step_has_the_same_work(report, last_steps(folder / "first"))
    a_recorded_step_has_the_products(folder / "first")
    choices_are_kept(report, folder)
    ranks_take_the_same(folder)


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
