"""The Python twin of a run: the same model (transformers), initial values, tokens, threads and arithmetic.

    optrush-worker export --spec spec.json --out start
    python experiments/peers/transformers_twin.py --start start --out result.json

It reads a complete RunSpec (start/spec.json, or --spec), does by hand what each stacked plugin does, and writes a
RunResult. A plugin that it has no counterpart of is an error. --compile adds torch.compile.
"""
import argparse
import contextlib
import json
import os
import resource
import statistics
import time


def avoid_broken_amx(cpuinfo="/proc/cpuinfo"):
    """Some virtual machines announce AMX and hide its tiles (CPUID leaf 1Dh): oneDNN would crash. As the host does."""
    with open(cpuinfo) as lines:
        fields = dict(line.split(":", 1) for line in lines.read().split("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    if "amx_tile" in fields.get("flags", "").split() and int(fields["cpuid level"]) < 0x1D:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


avoid_broken_amx()
import torch  # noqa: E402: reads the variable
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402


def options_of(spec):
    """What the spec's plugins mean here."""
    options = {"attention": "eager", "dtype": None, "fused": False}
    for plugin in spec["plugins"]:
        name, given = plugin["name"], plugin.get("options", {})
        if name == "mixed_precision":
            options["dtype"] = {"bf16": torch.bfloat16}[given.get("dtype", "bf16")]
        elif name == "fused_adamw":
            options["fused"] = True
        elif name == "flash_attention":
            options["attention"] = "sdpa"
        else:
            raise SystemExit(f"no counterpart of the plugin '{name}'")
    return options


def make_optimizer(model, train, fused):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": train["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    how = {"fused": True} if fused else {"foreach": False}
    return torch.optim.AdamW(groups, lr=train["lr"], betas=(train["beta1"], train["beta2"]), eps=train["eps"], **how)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def train(spec, start, compiled, device):
    plan, options = spec["train"], options_of(spec)
    model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32, attn_implementation=options["attention"])
    model.to(device).train()
    model.config.use_cache = False
    optimizer = make_optimizer(model, plan, options["fused"])
    forward = torch.compile(model) if compiled else model
    tokens = load_file(os.path.join(start, "tokens.safetensors"))["tokens"]
    steps = []
    for number in range(plan["warmup"] + plan["steps"]):
        synchronize(device)
        started = time.perf_counter()
        samples = tokens[number].to(device)
        count = samples.shape[0] * (samples.shape[1] - 1)
        total = 0.0
        for part in samples.split(plan["micro_batch"]):
            with torch.autocast(device, options["dtype"]) if options["dtype"] else contextlib.nullcontext():
                logits = forward(input_ids=part[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), part[:, 1:].flatten(),
                                                     reduction="sum") / count
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        synchronize(device)
        seconds = time.perf_counter() - started
        steps.append({"step": number, "timed": number >= plan["warmup"], "loss": float(total), "grad_norm": None,
                      "tokens": count, "seconds": seconds, "phases": {}})
    return steps


def result_of(steps, threads, device):
    median = statistics.median(step["seconds"] for step in steps if step["timed"])
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else None
    return {"schema_version": 1, "status": "ok", "reason": "",
            "device": {"type": device, "name": "", "threads": threads},
            "steps": steps, "tokens_per_second": steps[-1]["tokens"] / median, "step_seconds": median,
            "memory": {"peak_allocated": peak,
                       "process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024},
            "notes": [f"torch {torch.__version__} in Python"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", required=True, help="folder that `optrush-worker export` wrote")
    parser.add_argument("--spec", help="another complete RunSpec of the same model, data and steps")
    parser.add_argument("--out", required=True, help="file for the RunResult")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    arguments = parser.parse_args()
    with open(arguments.spec or os.path.join(arguments.start, "spec.json")) as text:
        spec = json.load(text)
    threads = spec["threads"] or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    device = spec["device"]
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    steps = train(spec, arguments.start, arguments.compile, device)
    with open(arguments.out, "w") as text:
        json.dump(result_of(steps, threads, device), text, indent=1)


if __name__ == "__main__":
    main()
