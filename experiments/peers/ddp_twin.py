"""The Python twin of a run with the plugin ddp: DistributedDataParallel around the model of transformers_twin.py.

    build/bin/optrush-worker export --spec spec.json --out start
    python ddp_twin.py --start start --out result.json

It starts train.world_size ranks of itself by torchrun. Each takes its part of every step's sequences, as the host's ranks
do; Gloo on a CPU, NCCL on GPUs. Rank 0 writes the result, with the resident set of its own process. The arguments are
those of transformers_twin.py.
"""
import argparse
import contextlib
import json
import os
import sys
import time


def start_ranks():
    """torchrun takes --start for one of its own options: the arguments travel by a variable."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--start")
    parser.add_argument("--spec")
    given = parser.parse_known_args()[0]
    with open(given.spec or os.path.join(given.start, "spec.json")) as text:
        ranks = json.load(text)["train"]["world_size"]
    os.environ["DDP_TWIN_ARGUMENTS"] = json.dumps(sys.argv[1:])
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                              str(ranks), os.path.abspath(__file__)])


if "RANK" not in os.environ:
    start_ranks()
sys.argv[1:] = json.loads(os.environ["DDP_TWIN_ARGUMENTS"])

import transformers_twin as twin  # noqa: E402  it reads the arguments

STARTED = time.perf_counter()
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LOCAL_RANK, LOCAL_RANKS = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])

import torch  # noqa: E402  after transformers_twin has set what it reads
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def train(spec, start, techniques, device, journal):
    plan = spec["train"]
    kind = torch.device(device).type
    model = twin.AutoModelForCausalLM.from_pretrained(
        start, dtype=torch.float32, attn_implementation="sdpa" if "sdpa" in techniques else "eager")
    model.to(device).train()
    model.config.use_cache = False
    replica = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = twin.make_optimizer(model, plan, "fused" in techniques)
    tokens = twin.load_file(os.path.join(start, "tokens.safetensors"))["tokens"]
    precision = (lambda: torch.autocast(kind, torch.bfloat16)) if "bf16" in techniques else contextlib.nullcontext
    clock, steps = twin.Clock(kind), []
    journal.add("phase", name="warmup")
    for number in range(plan["warmup"] + plan["steps"]):
        total = torch.zeros((), device=device)
        with clock.phase("data"):
            samples = tokens[number].chunk(RANKS)[RANK].to(device, non_blocking=True)
        count = tokens.shape[1] * (tokens.shape[2] - 1)
        parts = samples.split(plan["micro_batch"])
        for part in parts:
            with contextlib.nullcontext() if part is parts[-1] else replica.no_sync():
                with clock.phase("forward"), precision():
                    logits = replica(input_ids=part[:, :-1], use_cache=False).logits
                    loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), part[:, 1:].flatten(),
                                                             reduction="sum") / count
                with clock.phase("backward"):
                    (loss * RANKS).backward()  # it averages over the ranks
            total += loss.detach()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        dist.all_reduce(total)
        with clock.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        phases = clock.take()
        steps.append({"step": number, "timed": number >= plan["warmup"], "loss": float(total), "grad_norm": float(norm),
                      "tokens": count, "seconds": sum(phases.values()), "phases": phases})
        journal.add("step", **steps[-1])
    return steps


def main():
    start = twin.ARGUMENTS.start
    with open(twin.ARGUMENTS.spec or os.path.join(start, "spec.json")) as text:
        spec = json.load(text)
    uses = [use for use in spec["plugins"] if use["name"] != "ddp"]
    techniques = twin.techniques_of({"plugins": uses}) if twin.ARGUMENTS.techniques is None else \
        set(twin.ARGUMENTS.techniques)
    threads = spec["threads"] or max(1, len(os.sched_getaffinity(0)) // LOCAL_RANKS)
    torch.set_num_threads(threads)
    device = spec["device"]
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(LOCAL_RANK)
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    setup_seconds = time.perf_counter() - STARTED
    journal = twin.Journal(twin.ARGUMENTS.metrics if RANK == 0 else None)
    steps = train(spec, start, techniques, device, journal)
    if RANK == 0:
        twin.write_result(twin.ARGUMENTS.out, twin.result_of(steps, threads, device, None, setup_seconds))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
