"""The Python twin of a sharded run: torch's fully_shard (FSDP2) on the same model, values, tokens, threads and backend.

    torchrun --nproc-per-node 2 fsdp_twin.py --from start --out result.json

Each rank reads a folder that `optrush-worker export` wrote and the RunSpec in it; rank 0 writes a RunResult. The units are
ours: embedding, each block, norm and head. fp32 with fused AdamW and SDPA; a spec that asks for more is an error.
"""
import argparse
import json
import os
import resource
import statistics
import sys
import time

STARTED = time.perf_counter()


def write_result(path, result):
    with open(path + ".tmp", "w") as text:
        json.dump(result, text, indent=1)
    os.replace(path + ".tmp", path)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="start", required=True, help="folder that `optrush-worker export` wrote")
    parser.add_argument("--spec", help="a complete RunSpec; that of --from where left out")
    parser.add_argument("--out", required=True, help="file for the RunResult")
    parser.add_argument("--keep", action="store_true", help="parameters stay whole from forward to backward")
    return parser.parse_args()


ARGUMENTS = parse_arguments()
RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
try:
    import torch
    import torch.distributed as dist
    from safetensors.torch import load_file
    from torch.distributed.fsdp import FSDPModule, fully_shard
    from transformers import AutoModelForCausalLM
except ImportError as error:
    if RANK == 0:
        write_result(ARGUMENTS.out, {"schema_version": 1, "status": "skipped",
                                     "reason": f"{error}\n{sys.executable} -m pip install transformers safetensors"})
    sys.exit()

COUNTERPARTS = {"fsdp", "fused_adamw", "flash_attention"}


def make_model(start, mesh, keep):
    model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32, attn_implementation="sdpa").train()
    model.config.use_cache = False
    model.to(mesh.device_type)
    inner = model.model
    for unit in [inner.embed_tokens, *inner.layers, [inner.norm, model.lm_head], model]:
        fully_shard(unit, mesh=mesh, reshard_after_forward=not keep)
    for module in model.modules():  # sums, as the loss is divided by all tokens
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # Gloo has no sum with a factor
    return model


def make_optimizer(model, train):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": train["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=train["lr"], betas=(train["beta1"], train["beta2"]), eps=train["eps"], fused=True)


def train(spec, start, device, keep):
    plan = spec["train"]
    mesh = dist.init_device_mesh(device, (WORLD_SIZE,))
    model = make_model(start, mesh, keep)
    optimizer = make_optimizer(model, plan)
    tokens = load_file(os.path.join(start, "tokens.safetensors"))["tokens"]
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    steps, rows = [], plan["micro_batch"]
    for number in range(plan["warmup"] + plan["steps"]):
        if device == "cuda" and number == plan["warmup"]:
            torch.cuda.reset_peak_memory_stats()
        samples = tokens[number]
        count = samples.shape[0] * (samples.shape[1] - 1)
        synchronize()
        started, total, phases = time.perf_counter(), torch.zeros((), device=device), {}

        def spent(phase, since):
            synchronize()
            now = time.perf_counter()
            phases[phase] = phases.get(phase, 0.0) + now - since
            return now

        now = started
        for micro in range(plan["accumulation"]):
            first = (RANK * plan["accumulation"] + micro) * rows
            part = samples[first:first + rows].to(device)
            logits = model(input_ids=part[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), part[:, 1:].flatten(),
                                                     reduction="sum") / count
            now = spent("forward", now)
            loss.backward()
            now = spent("backward", now)
            total += loss.detach()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).full_tensor()
        dist.all_reduce(total)
        now = time.perf_counter()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        spent("optimizer", now)
        # Norm and logged loss are bookkeeping, which the host does not count either.
        steps.append({"step": number, "timed": number >= plan["warmup"], "loss": float(total), "grad_norm": float(norm),
                      "tokens": count, "seconds": sum(phases.values()), "phases": dict(phases)})
    return steps


def memory_peaks(device):
    if device == "cuda":
        return {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.max_memory_reserved()}
    return {"process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def main():
    with open(ARGUMENTS.spec or os.path.join(ARGUMENTS.start, "spec.json")) as text:
        spec = json.load(text)
    unknown = {plugin["name"] for plugin in spec["plugins"]} - COUNTERPARTS
    if unknown:
        raise SystemExit(f"no counterpart of {', '.join(sorted(unknown))}")
    if spec["train"]["world_size"] != WORLD_SIZE:
        raise SystemExit(f"{WORLD_SIZE} processes were started, and the spec says {spec['train']['world_size']}")
    threads = spec["threads"] or max(1, len(os.sched_getaffinity(0)) // WORLD_SIZE)
    torch.set_num_threads(threads)
    device = spec["device"]
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    setup_seconds = time.perf_counter() - STARTED
    steps = train(spec, ARGUMENTS.start, device, ARGUMENTS.keep)
    if RANK == 0:
        timed = [step for step in steps if step["timed"]]
        median = statistics.median(step["seconds"] for step in timed)
        write_result(ARGUMENTS.out, {
            "schema_version": 1, "status": "ok", "reason": "",
            "device": {"type": device, "name": "", "threads": threads},
            "steps": steps, "tokens_per_second": steps[-1]["tokens"] / median, "step_seconds": median,
            "phases": {name: statistics.median(step["phases"][name] for step in timed) for name in timed[0]["phases"]},
            "memory": memory_peaks(device), "setup_seconds": setup_seconds,
            "notes": [f"torch {torch.__version__} in Python, {WORLD_SIZE} ranks"]})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
