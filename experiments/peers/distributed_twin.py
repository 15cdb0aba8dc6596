"""The Python twin of a run of several ranks: what torch has for them, around the model of transformers_twin.py.

    build/bin/optrush-worker export --spec spec.json --out start
    python distributed_twin.py --by ddp --ranks 2 --start start --out result.json

--by ddp is DistributedDataParallel, --by fsdp is fully_shard (FSDP2) with the host's units: embedding, each block, norm
and head. It starts its ranks by torchrun. Each takes its part of every step's sequences, as the host's ranks do; Gloo on a
CPU, NCCL on GPUs. Rank 0 writes the result, with the resident set of its own process. The other arguments are those of
transformers_twin.py.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import sys
import time

STARTED = time.perf_counter()
# torchrun takes --start for one of its own options: the arguments travel by a variable.
GIVEN = "DISTRIBUTED_TWIN_ARGUMENTS"


def own_arguments(words):
    """Those of this program; transformers_twin reads the rest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by", choices=["ddp", "fsdp"], required=True, help="what connects the ranks")
    parser.add_argument("--ranks", type=int, required=True, help="as train.world_size")
    parser.add_argument("--keep", action="store_true", help="fsdp: parameters stay whole from forward to backward")
    own, sys.argv[1:] = parser.parse_known_args(words)
    return own


def start_ranks(words):
    own = own_arguments(words)
    if not all(map(importlib.util.find_spec, ["torch", "safetensors", "transformers"])):
        import transformers_twin  # noqa: F401  it says what is missing, and ends the program
    os.environ[GIVEN] = json.dumps(words)
    # torchrun would say 1.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // own.ranks)))
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                              str(own.ranks), os.path.abspath(__file__)])


if GIVEN not in os.environ:
    start_ranks(sys.argv[1:])
OWN = own_arguments(json.loads(os.environ[GIVEN]))

import transformers_twin as twin  # noqa: E402  it reads the arguments

RANK, RANKS, LOCAL_RANK = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))

import torch  # noqa: E402  after transformers_twin has set what it reads
import torch.distributed as dist  # noqa: E402
from torch.distributed.fsdp import FSDPModule, fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


# Both return the module to call, what undoes its averages, and a context in which it does not sum gradients.
def replicated(model):
    replica = DistributedDataParallel(model, gradient_as_bucket_view=True)
    return replica, RANKS, replica.no_sync


def sharded(model):
    inner = model.model
    mesh = dist.init_device_mesh(model.device.type, (RANKS,))
    for unit in [inner.embed_tokens, *inner.layers, [inner.norm, model.lm_head], model]:
        fully_shard(unit, mesh=mesh, reshard_after_forward=not OWN.keep)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # Gloo has no sum with a factor
    return model, 1, contextlib.nullcontext  # it sums at every backward, as the host does


def train(spec, start, techniques, device, journal):
    plan = spec["train"]
    model = twin.AutoModelForCausalLM.from_pretrained(
        start, dtype=torch.float32, attn_implementation="sdpa" if "sdpa" in techniques else "eager")
    model.to(device).train()
    model.config.use_cache = False
    module, averaged, alone = {"ddp": replicated, "fsdp": sharded}[OWN.by](model)
    optimizer = twin.make_optimizer(model, plan, "fused" in techniques)
    tokens = twin.load_file(os.path.join(start, "tokens.safetensors"))["tokens"]
    precision = (lambda: torch.autocast(device, torch.bfloat16)) if "bf16" in techniques else contextlib.nullcontext
    clock, steps = twin.Clock(device), []
    journal.add("phase", name="warmup")
    for number in range(plan["warmup"] + plan["steps"]):
        if device == "cuda" and number == plan["warmup"]:
            torch.cuda.reset_peak_memory_stats()
        total = torch.zeros((), device=device)
        with clock.phase("data"):
            samples = tokens[number].chunk(RANKS)[RANK].to(device, non_blocking=True)
        count = tokens.shape[1] * (tokens.shape[2] - 1)
        parts = samples.split(plan["micro_batch"])
        for part in parts:
            with contextlib.nullcontext() if part is parts[-1] else alone():
                with clock.phase("forward"), precision():
                    logits = module(input_ids=part[:, :-1], use_cache=False).logits
                    loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), part[:, 1:].flatten(),
                                                             reduction="sum") / count
                with clock.phase("backward"):
                    (loss * averaged).backward()
            total += loss.detach()
        # Norm and logged loss are bookkeeping, which the host does not count either.
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        norm = norm.full_tensor() if OWN.by == "fsdp" else norm
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
    spec = twin.read_spec()
    if spec["train"]["world_size"] != RANKS:
        raise SystemExit(f"{RANKS} ranks were started, and the spec says {spec['train']['world_size']}")
    if twin.ARGUMENTS.compile:
        raise SystemExit("--compile is not for several ranks")
    threads, device = twin.set_threads(spec), twin.device_of(spec)
    if device == "cuda":
        torch.cuda.set_device(LOCAL_RANK)
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    setup_seconds = time.perf_counter() - STARTED
    journal = twin.Journal(twin.ARGUMENTS.metrics if RANK == 0 else None)
    steps = train(spec, start, twin.techniques_of(spec, beside={OWN.by}), device, journal)
    if RANK == 0:
        result = twin.result_of(steps, threads, device, None, setup_seconds)
        result["notes"] = [f"{note}, {RANKS} ranks" for note in result["notes"]]
        twin.write_result(twin.ARGUMENTS.out, result)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
