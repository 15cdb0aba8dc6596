"""The Python twin of a run: the same model (transformers), initial values, tokens, threads and arithmetic.

    build/bin/optrush-worker export --spec spec.json --out start
    python transformers_twin.py --start start --out result.json

It reads a complete RunSpec, does by hand what each stacked plugin does, and writes a RunResult. A plugin that it has no
counterpart of is an error; --with says what to do instead of what the plugins say. --start is a folder that
`optrush-worker export` wrote. transformers 4.57 and 5 have all that it calls.
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import statistics
import sys
import time

# Beside this folder in a checkout and in an installation.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts/python"))

from optimization_rush.clock import Clock  # noqa: E402
from optimization_rush.files import Journal, memory_peaks, write_result  # noqa: E402
from optimization_rush.gpu_use import GpuUse  # noqa: E402
from optimization_rush.interleaving import Interleaving  # noqa: E402

STARTED = time.perf_counter()


def avoid_broken_amx(cpuinfo="/proc/cpuinfo"):
    """Disables AMX in oneDNN, like the host, if a virtual machine announces AMX without its tiles (CPUID leaf 1Dh).
    oneDNN would crash."""
    with open(cpuinfo) as lines:
        fields = dict(line.split(":", 1) for line in lines.read().split("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    if "amx_tile" in fields.get("flags", "").split() and int(fields["cpuid level"]) < 0x1D:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", required=True, help="folder from `optrush-worker export`")
    parser.add_argument("--spec", help="complete RunSpec; default: the one of --start")
    parser.add_argument("--out", required=True, help="file for the RunResult")
    parser.add_argument("--metrics", help="file for one line of JSON per step")
    parser.add_argument(
        "--with",
        dest="techniques",
        nargs="*",
        choices=["bf16", "bf16_weights", "sdpa", "fused", "muon", "liger", "float8"],
        help="replaces the choice of the spec's plugins",
    )
    parser.add_argument("--compile", nargs="?", const="default",
                        choices=["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"],
                        help="compile the model and its loss with torch.compile")
    parser.add_argument("--form", default="whole", choices=["shipped", "whole", "blocks"],
                        help="what is compiled (forms.py): 'shipped' is transformers as it is, with a dense mask")
    parser.add_argument("--trace", default=os.environ.get("OPTRUSH_TRACE"),
                        help="file for a Chrome trace of one more step; that step is in no result")
    return parser.parse_args()


def skip(reason):
    write_result(ARGUMENTS.out, {"schema_version": 1, "status": "skipped", "reason": reason})
    sys.exit()


ARGUMENTS = parse_arguments()
avoid_broken_amx()
try:
    import torch  # reads the variable
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    import attention
    import forms
except ImportError as error:
    skip(f"{error}\n{sys.executable} -m pip install transformers safetensors")

COUNTERPARTS = {"mixed_precision": "bf16", "fused_adamw": "fused", "flash_attention": "sdpa", "muon": "muon",
                "bf16_weights": "bf16_weights"}


def read_spec():
    with open(ARGUMENTS.spec or os.path.join(ARGUMENTS.start, "spec.json")) as text:
        return json.load(text)


def set_threads(spec):
    threads = spec["threads"] or int(os.environ.get("OMP_NUM_THREADS", 0)) or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    return threads


def device_of(spec):
    if spec["device"] != "auto":
        return spec["device"]
    return "cuda" if torch.cuda.is_available() else "cpu"


def techniques_of(spec, beside=frozenset()):
    """The techniques of --with, otherwise the counterparts of the spec's plugins. Those in `beside` are handled
    elsewhere."""
    if ARGUMENTS.techniques is not None:
        return set(ARGUMENTS.techniques)
    found = set()
    for plugin in spec["plugins"]:
        if plugin["name"] in beside:
            continue
        if plugin["name"] not in COUNTERPARTS:
            raise SystemExit(f"no PyTorch equivalent of the plugin '{plugin['name']}'")
        if plugin.get("options", {}).get("dtype", "bf16") != "bf16":
            raise SystemExit("no PyTorch equivalent of autocast to types other than bf16")
        if plugin["name"] == "muon" and plugin.get("options"):
            raise SystemExit("no PyTorch equivalent of muon with non-default options")
        found.add(COUNTERPARTS[plugin["name"]])
    return found


def learning_rate(train, step):
    """The learning rate of a step of the spec (docs/reference/lua.md, TrainSettings)."""
    warmup, decay = train.get("lr_warmup", 0), train.get("lr_decay", "none")
    if step < warmup:
        return train["lr"] * (step + 1) / (warmup + 1)
    if decay == "none":
        return train["lr"]
    done = min(1.0, (step - warmup) / (train["lr_steps"] - warmup))
    left = 1 - done if decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return train["lr"] * (train["lr_min"] + (1 - train["lr_min"]) * left)


def set_learning_rate(optimizer, train, step):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(train, step)


class Together:
    """Several optimizers of one model, with the interface of one."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers
        self.param_groups = [group for optimizer in optimizers for group in optimizer.param_groups]

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self, set_to_none):
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=set_to_none)


class OfMasters:
    """An optimizer of fp32 copies. It reads the gradients of the model's bf16 parameters, and writes the parameters."""

    def __init__(self, model, make):
        self.parameters = list(model.parameters())
        self.masters = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.gradients = [torch.empty_like(master) for master in self.masters.values()]
        for master, gradient in zip(self.masters.values(), self.gradients):
            master.grad = gradient
        for parameter in self.parameters:  # and no buffer: the rotation's frequencies stay fp32
            parameter.data = parameter.data.bfloat16()
        self.optimizer = make(self.masters)
        self.param_groups = self.optimizer.param_groups

    @torch.no_grad()
    def step(self):
        torch._foreach_copy_(self.gradients, [parameter.grad for parameter in self.parameters])
        self.optimizer.step()
        torch._foreach_copy_(self.parameters, list(self.masters.values()))

    def zero_grad(self, set_to_none):
        for parameter in self.parameters:
            parameter.grad = None


def make_optimizer(model, train, techniques):
    """The optimizer of the model's parameters, or with "bf16_weights" of their masters."""
    if "bf16_weights" in techniques:
        return OfMasters(model, lambda masters: optimizer_of(masters, train, techniques | {"fused"}))
    return optimizer_of(dict(model.named_parameters()), train, techniques)


def optimizer_of(parameters, train, techniques):
    """AdamW without decay of vectors. With "muon", Muon for all parameters except vectors, the embedding and the
    head."""
    matrices = [(name, p) for name, p in parameters.items() if p.dim() > 1]
    vectors = [p for p in parameters.values() if p.dim() <= 1]
    inside = [
        p for name, p in matrices if "muon" in techniques and not name.startswith(("model.embed_tokens", "lm_head"))
    ]
    others = [p for _, p in matrices if all(p is not each for each in inside)]
    decay = {"weight_decay": train["weight_decay"]}
    how = {"fused": True} if "fused" in techniques else {"foreach": False}
    adamw = torch.optim.AdamW([{"params": others, **decay}, {"params": vectors, "weight_decay": 0.0}], lr=train["lr"],
                              betas=(train["beta1"], train["beta2"]), eps=train["eps"], **how)
    if not inside:
        return adamw
    return Together(torch.optim.Muon(inside, lr=train["lr"], adjust_lr_fn="match_rms_adamw", **decay), adamw)


def clock_of(device):
    """Time outside of a phase (gradient norm, logging) does not count, so a step is the sum of its phases."""
    return Clock(device == "cuda", trace=bool(ARGUMENTS.trace))


def write_trace(step, path):
    """Writes a trace of one step like the host with --trace: operators with the sizes of their inputs, and the
    phases."""
    with torch.profiler.profile(record_shapes=True) as profile:
        step()
    profile.export_chrome_trace(path)


def gpu_use(device, turns):
    """The meter of this process's GPU; of none on a CPU, and while other runs use the GPU in between."""
    alone = device == "cuda" and turns.stream is None
    return GpuUse(f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}" if alone else "")


def profiled(step):
    """Runs a step. Returns its record, and the attention kernels that it ran with whether one had a mask."""
    with torch.profiler.profile(record_shapes=True) as profile:
        record = step()
    return record, attention.kernels(profile)


def attention_note(kernels, masked):
    return f"attention: {', '.join(kernels) or 'no fused kernel was seen'}{', with a dense mask' if masked else ''}"


def train(spec, start, techniques, compiled, device, journal, turns, meter):
    """Returns the records of all steps, and notes."""
    plan = spec["train"]
    model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32,
                                                 attn_implementation="sdpa" if "sdpa" in techniques else "eager")
    model.to(device).train()
    model.config.use_cache = False
    losses = forms.loss_of(model, compiled, ARGUMENTS.form, techniques, device)
    optimizer = make_optimizer(model, plan, techniques)
    parameters = list(model.parameters())
    tokens = load_file(os.path.join(start, "tokens.safetensors"))["tokens"]
    tokens = tokens.pin_memory() if device == "cuda" else tokens

    precision = (lambda: torch.autocast(device, torch.bfloat16)) if "bf16" in techniques else contextlib.nullcontext
    clock, steps = clock_of(device), []

    def make(number, timed):
        total = torch.zeros((), device=device)
        with clock.phase("data"):
            samples = tokens[number].to(device, non_blocking=True)
        count = samples.shape[0] * (samples.shape[1] - 1)
        for part in samples.split(plan["micro_batch"]):
            with clock.phase("forward"), precision():
                loss = losses(part[:, :-1], part[:, 1:]) / count
            with clock.phase("backward"):
                loss.backward()
            total += loss.detach()
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
        set_learning_rate(optimizer, plan, number)
        with clock.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        phases = clock.phases()
        return {"step": number, "timed": timed, "loss": float(total), "grad_norm": float(norm),
                "tokens": count, "seconds": sum(phases.values()), "phases": phases}

    notes = []
    journal.add("phase", name="compiling" if compiled else "warmup")
    for number in range(plan["warmup"] + plan["steps"]):
        if device == "cuda" and number == plan["warmup"]:
            torch.cuda.reset_peak_memory_stats()
        timed = number >= plan["warmup"] and turns.step(steps[-1]["seconds"] if steps else 0.0)
        if timed:
            meter.start()
        if number == plan["warmup"] - 1:  # compiled, and not timed
            record, (kernels, masked) = profiled(lambda: make(number, timed))
            if masked and "sdpa" in techniques and not (compiled and ARGUMENTS.form == "shipped"):
                raise SystemExit("attention had a mask, which only the form 'shipped' may have")
            notes.append(attention_note(kernels, masked))
        else:
            record = make(number, timed)
        steps.append(record)
        journal.add("step", **steps[-1])
    meter.stop()
    if ARGUMENTS.trace:
        write_trace(lambda: make(len(steps) - 1, timed=False), ARGUMENTS.trace)
    return steps, notes


def result_of(steps, notes, threads, device, compiled, setup_seconds):
    timed = [step for step in steps if step["timed"]]
    median = statistics.median(step["seconds"] for step in timed)
    # Inductor compiles in the first step, and again if shapes change.
    compile_seconds = sum(step["seconds"] - median for step in steps if not step["timed"]) if compiled else 0
    return {"schema_version": 1, "status": "ok", "reason": "",
            "device": {"type": device, "name": "", "threads": threads},
            "steps": steps, "tokens_per_second": steps[-1]["tokens"] / median, "step_seconds": median,
            "phases": {name: statistics.median(step["phases"][name] for step in timed) for name in timed[0]["phases"]},
            "memory": memory_peaks(device == "cuda"),
            "compile_seconds": max(0, compile_seconds), "setup_seconds": setup_seconds,
            "notes": [f"torch {torch.__version__} in Python", *notes]}


def main():
    spec = read_spec()
    threads, device = set_threads(spec), device_of(spec)
    techniques = techniques_of(spec)
    for technique in sorted(techniques & forms.NEEDS.keys()):
        if reason := forms.missing(technique, device):
            skip(reason)
    setup_seconds = time.perf_counter() - STARTED
    turns = Interleaving()
    meter = gpu_use(device, turns)
    steps, notes = train(
        spec,
        ARGUMENTS.start,
        techniques,
        ARGUMENTS.compile,
        device,
        Journal(ARGUMENTS.metrics),
        turns,
        meter,
    )
    write_result(ARGUMENTS.out,
                 result_of(steps, notes, threads, device, ARGUMENTS.compile, setup_seconds) | meter.fields())


if __name__ == "__main__":
    main()
