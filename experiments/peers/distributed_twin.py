"""The Python twin of a run of several ranks: what torch has for them, around the model of transformers_twin.py.

    build/bin/optrush-worker export --spec spec.json --out start
    python distributed_twin.py --by ddp --ranks 2 --start start --out result.json

--by ddp is DistributedDataParallel, --by fsdp is fully_shard (FSDP2) with the host's units: embedding, each block, norm
and head; --by ep are transformers' own expert parallelism, with all-to-alls of the rows, and its fully_shard of all
else. Each rank takes its part of every step's sequences, as the host's ranks do. By the other three all ranks train on
the same sequences:

    tp  parallelize_module, with matrices cut as the host cuts them, and loss_parallel
    pp  PipelineStage with equally many blocks on each rank, and the schedule that --schedule names. Its forwards and
        backwards are one call, and so one phase of a step: pipeline
    cp  context_parallel around the model, and DistributedDataParallel for the gradients; it needs GPUs

It starts its ranks by torchrun; Gloo on a CPU, NCCL on GPUs. Rank 0 writes the result, with the memory of the rank that
needs most. The other arguments are the same as in transformers_twin.py.
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import time

STARTED = time.perf_counter()
# torchrun would read --start as one of its own options, so a variable passes the arguments.
GIVEN = "DISTRIBUTED_TWIN_ARGUMENTS"


def own_arguments(words):
    """The arguments of this program. transformers_twin reads the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by", choices=["ddp", "fsdp", "ep", "tp", "pp", "cp"], required=True,
                        help="kind of parallelism")
    parser.add_argument("--ranks", type=int, required=True, help="number of ranks, as train.world_size")
    parser.add_argument("--keep", action="store_true", help="fsdp: keep parameters gathered from forward to backward")
    parser.add_argument(
        "--schedule", choices=["GPipe", "1F1B"], default="1F1B", help="pp: schedule of the micro-batches"
    )
    own, sys.argv[1:] = parser.parse_known_args(words)
    return own


def start_ranks(words):
    own = own_arguments(words)
    if not all(map(importlib.util.find_spec, ["torch", "safetensors", "transformers"])):
        import transformers_twin  # noqa: F401  it says what is missing, and ends the program
    if own.by == "ep" and not importlib.util.find_spec("transformers.distributed.expert_parallel"):
        import transformers_twin
        transformers_twin.skip(
            "the expert parallelism of transformers needs version 5.22 or newer, but "
            f"{importlib.metadata.version('transformers')} is installed; set OPTRUSH_PYTHON to a Python "
            "that has it, beside the same torch"
        )
    os.environ[GIVEN] = json.dumps(words)
    # torchrun would set 1.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // own.ranks)))
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                              str(own.ranks), os.path.abspath(__file__)])


if GIVEN not in os.environ:
    start_ranks(sys.argv[1:])
OWN = own_arguments(json.loads(os.environ[GIVEN]))

import transformers_twin as twin  # noqa: E402  it reads the arguments

RANK, RANKS, LOCAL_RANK = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))

import torch  # noqa: E402  after transformers_twin has set the variables that it reads
import torch.distributed as dist  # noqa: E402
from torch.distributed import pipelining  # noqa: E402
from torch.distributed.fsdp import FSDPModule, fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard  # noqa: E402
from torch.distributed.tensor.experimental import context_parallel  # noqa: E402
from torch.distributed.tensor.parallel import (  # noqa: E402
    ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module)
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from transformers.integrations.sdpa_attention import repeat_kv  # noqa: E402
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # noqa: E402


def mesh_of(model):
    return dist.init_device_mesh(model.device.type, (RANKS,))


def model_of(start, attention, **how):
    return twin.AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32, attn_implementation=attention, **how)


def mean_loss(logits, labels, count):
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="sum") / count


class Parts:
    """Processes micro-batches one after the other and adds up gradients. Each kind of parallelism overrides its
    differences."""

    averaged = 1  # what the ranks' sum of gradients is divided by
    shares = 1  # parts that a step's sequences are cut into
    load = staticmethod(model_of)

    def __init__(self, model, plan, precision):
        self.model = self.module = model
        self.parts, self.precision = plan["accumulation"], precision

    def step(self, samples, count, clock):
        """This rank's part of the loss, a mean over `count` tokens. The gradients are sums over all ranks."""
        total = torch.zeros((), device=samples.device)
        parts = samples.tensor_split(self.parts)
        for number, part in enumerate(parts, 1):
            with self.around(number == len(parts)):
                total += self.part(part[:, :-1], part[:, 1:], count, clock)
        return total

    def part(self, inputs, labels, count, clock, **places):
        with clock.phase("forward"), self.precision():
            loss = mean_loss(self.module(input_ids=inputs, use_cache=False, **places).logits, labels, count)
        with clock.phase("backward"):
            (loss * self.averaged).backward()
        return loss.detach()

    def around(self, last):
        return contextlib.nullcontext()

    def norm(self):
        return norm_of(self.model)

    def optimizer(self, plan, techniques):
        return twin.make_optimizer(self.model, plan, techniques)


def by_mesh(tensors, tensor_of=lambda tensor: tensor):
    """Groups tensors by the ranks over which they are cut, because one operator cannot mix them."""
    groups = {}
    for each in tensors:
        groups.setdefault(getattr(tensor_of(each), "device_mesh", None), []).append(each)
    return list(groups.values())


def norm_of(model):
    """The norm of this rank's gradients. Cut gradients are made whole."""
    groups = by_mesh(parameter.grad for parameter in model.parameters())
    norms = [torch.nn.utils.get_total_norm(gradients) for gradients in groups]
    return torch.stack([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]).norm()


class Replicated(Parts):
    averaged = shares = RANKS

    def __init__(self, model, *others):
        super().__init__(model, *others)
        self.module = DistributedDataParallel(model, gradient_as_bucket_view=True)

    def around(self, last):
        return contextlib.nullcontext() if last else self.module.no_sync()


class Sharded(Parts):
    shares = RANKS  # it sums at every backward, as the host does

    def __init__(self, model, *others):
        super().__init__(model, *others)
        inner, mesh = model.model, mesh_of(model)
        for unit in [inner.embed_tokens, *inner.layers, [inner.norm, model.lm_head], model]:
            fully_shard(unit, mesh=mesh, reshard_after_forward=not OWN.keep)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)  # Gloo has no sum with a factor


class Experts(Parts):
    """Expert parallelism. The model is divided while it is loaded."""

    averaged = shares = RANKS

    @staticmethod
    def load(start, attention):
        from transformers.distributed import DistributedConfig
        return model_of(start, attention, distributed_config=DistributedConfig(fsdp_size=RANKS, ep_size=RANKS))

    def optimizer(self, plan, techniques):
        groups = by_mesh(self.model.named_parameters(), lambda named: named[1])
        return twin.Together(*[twin.optimizer_of(dict(group), plan, techniques) for group in groups])


class Cut(Parts):
    def __init__(self, model, *others):
        super().__init__(model, *others)
        by = {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
              "lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
            by[f"model.layers.*.{name}"] = ColwiseParallel()
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            by[f"model.layers.*.{name}"] = RowwiseParallel()
        parallelize_module(model, mesh_of(model), by)

    def step(self, *arguments):
        return super().step(*arguments) / RANKS  # each has all of it

    def part(self, *arguments):
        return super().part(*arguments).full_tensor()

    def around(self, last):
        return loss_parallel()


class Stage(torch.nn.Module):
    """A stage with equally many blocks. The first one also has the embedding, the last one norm and head."""

    def __init__(self, model, precision):
        super().__init__()
        self.model, self.precision, inner = model, precision, model.model
        first, end = (len(inner.layers) * rank // RANKS for rank in (RANK, RANK + 1))
        inner.layers = inner.layers[first:end]
        if RANK > 0:
            inner.embed_tokens = None
        if RANK + 1 < RANKS:
            inner.norm = model.lm_head = torch.nn.Identity()

    def forward(self, x):
        inputs = {"inputs_embeds": x} if RANK > 0 else {"input_ids": x}
        with self.precision():
            return self.model(**inputs, use_cache=False).logits


class Piped(Parts):
    def __init__(self, model, *others):
        super().__init__(model, *others)
        stage = pipelining.PipelineStage(Stage(model, self.precision), RANK, RANKS, model.device)
        schedule = {"GPipe": pipelining.ScheduleGPipe, "1F1B": pipelining.Schedule1F1B}[OWN.schedule]
        self.schedule = schedule(stage, self.parts, loss_fn=self.loss, scale_grads=False)

    def loss(self, logits, labels):
        return mean_loss(logits, labels, self.count)

    def step(self, samples, count, clock):
        self.count, losses = count, []
        inputs = [samples[:, :-1].contiguous()] if RANK == 0 else []
        labels = {"target": samples[:, 1:], "losses": losses} if RANK + 1 == RANKS else {}
        with clock.phase("pipeline"):
            self.schedule.step(*inputs, **labels, return_outputs=False)
        return torch.stack(losses).sum() if losses else torch.zeros((), device=samples.device)

    def norm(self):
        squared = super().norm() ** 2
        dist.all_reduce(squared)
        return squared.sqrt()


def causal_attention(module, query, key, value, mask, scaling=None, **_):
    key, value = (repeat_kv(x, module.num_key_value_groups) for x in (key, value))
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling)
    return out.transpose(1, 2).contiguous(), None


class Ring(Replicated):
    shares = 1

    def __init__(self, model, *others):
        super().__init__(model, *others)
        self.mesh = mesh_of(model)
        # transformers' mask would treat a rank's positions, which are not contiguous, as packed documents.
        ALL_ATTENTION_FUNCTIONS.register("ring", causal_attention)
        model.config._attn_implementation = "ring"

    def part(self, inputs, labels, *arguments):
        positions = torch.arange(inputs.shape[1], device=inputs.device).expand_as(inputs)
        # context_parallel cuts them in place.
        cut = [x.clone(memory_format=torch.contiguous_format) for x in (inputs, labels, positions)]
        with context_parallel(self.mesh, buffers=cut, buffer_seq_dims=[1, 1, 1], no_restore_buffers=set(cut)):
            return super().part(*cut[:2], *arguments, position_ids=cut[2])


KINDS = {"ddp": Replicated, "fsdp": Sharded, "ep": Experts, "tp": Cut, "pp": Piped, "cp": Ring}
# The host's plugins to which they correspond.
PLUGINS = {"ddp": {"ddp"}, "fsdp": {"fsdp"}, "ep": {"expert_parallel", "fsdp"}, "tp": {"tensor_parallel"},
           "pp": {"pipeline_parallel"}, "cp": {"context_parallel", "ddp"}}


def train(spec, start, techniques, device, journal):
    plan = spec["train"]
    model = KINDS[OWN.by].load(start, "sdpa" if "sdpa" in techniques else "eager")
    if OWN.by in ("tp", "pp") and model.config.tie_word_embeddings:
        raise SystemExit(f"--by {OWN.by} does not support a model with tied embeddings")
    model.to(device).train()
    model.config.use_cache = False
    precision = (lambda: torch.autocast(device, torch.bfloat16)) if "bf16" in techniques else contextlib.nullcontext
    kind = KINDS[OWN.by](model, plan, precision)
    optimizer = kind.optimizer(plan, techniques)
    # In the order in which steps use them.
    tokens = twin.load_file(os.path.join(start, "tokens.safetensors"))["tokens"].flatten(0, 1)
    sequences = plan["micro_batch"] * plan["accumulation"]  # of a share
    count = sequences * kind.shares * (tokens.shape[1] - 1)
    clock, steps, turns = twin.clock_of(device), [], twin.Interleaving(RANK, RANKS)

    def make(number, timed):
        with clock.phase("data"):
            first = (number * kind.shares + RANK % kind.shares) * sequences
            samples = tokens[first:first + sequences].to(device, non_blocking=True)
        total = kind.step(samples, count, clock)
        # Norm and logged loss are bookkeeping, which the host does not count either.
        norm = kind.norm()
        dist.all_reduce(total)
        twin.set_learning_rate(optimizer, plan, number)
        with clock.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        phases = clock.phases()
        return {"step": number, "timed": timed, "loss": float(total), "grad_norm": float(norm),
                "tokens": count, "seconds": sum(phases.values()), "phases": phases}

    journal.add("phase", name="warmup")
    for number in range(plan["warmup"] + plan["steps"]):
        if device == "cuda" and number == plan["warmup"]:
            torch.cuda.reset_peak_memory_stats()
        timed = number >= plan["warmup"] and turns.step(steps[-1]["seconds"] if steps else 0.0)
        steps.append(make(number, timed))
        journal.add("step", **steps[-1])
    if twin.ARGUMENTS.trace:  # every rank makes the step, and rank 0 traces its part
        if RANK == 0:
            twin.write_trace(lambda: make(len(steps) - 1, timed=False), twin.ARGUMENTS.trace)
        else:
            make(len(steps) - 1, timed=False)
    return steps


def largest_of_ranks(own):
    peaks = [None] * RANKS
    dist.all_gather_object(peaks, own)
    return {name: max(peak[name] for peak in peaks) for name in own}


def main():
    start = twin.ARGUMENTS.start
    spec = twin.read_spec()
    if spec["train"]["world_size"] != RANKS:
        raise SystemExit(f"{RANKS} ranks were started, but train.world_size is {spec['train']['world_size']}")
    if twin.ARGUMENTS.compile:
        raise SystemExit("--compile does not support several ranks")
    threads, device = twin.set_threads(spec), twin.device_of(spec)
    if device == "cuda":
        torch.cuda.set_device(LOCAL_RANK)
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    setup_seconds = time.perf_counter() - STARTED
    journal = twin.Journal(twin.ARGUMENTS.metrics if RANK == 0 else None)
    steps = train(spec, start, twin.techniques_of(spec, beside=PLUGINS[OWN.by]), device, journal)
    memory = largest_of_ranks(twin.memory_peaks(device == "cuda"))
    if RANK == 0:
        result = twin.result_of(steps, [], threads, device, None, setup_seconds) | {"memory": memory}
        result["notes"] = [f"{note}, {RANKS} ranks" for note in result["notes"]]
        twin.write_result(twin.ARGUMENTS.out, result)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
