"""forward_parity.py [--plain]: compares `optrush-worker forward` with transformers and peft for small random models.

It compares every logit, loss and gradient. --plain leaves out plugins. An error is the largest difference of a tensor
relative to the largest value of the reference. Exit code 0: passed, 1: failed, 77: the packages are missing."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    import reference
    from small_models import LENGTH, LENGTHS, MODELS, small
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BUILD = Path(os.environ["OPTRUSH_BUILD_DIR"])
WORKER = BUILD / "bin" / "optrush-worker"
MANY = BUILD / "tests" / "bin" / "forward_many"

# fp32 and fp64: another order of the same sums. bf16 has 8 bits, and a gradient is a long chain of roundings.
LIMITS = {"fp32": 1e-5, "fp64": 1e-12, "bf16": 6e-2, "exact": 0.0}
# Most of the sum of a decay's gradient cancels. In fp32 the gradients of both programs are up to 2e-5 from fp64.
DECAYS, OF_DECAYS = ("A_log", "dt_bias"), 1e-4
STACKS = [
    (["flash_attention"], "fp32"),
    (["activation_checkpointing"], "exact"),
    (["mixed_precision:dtype=bf16"], "bf16"),
    (["flash_attention", "activation_checkpointing", "mixed_precision:dtype=bf16"], "bf16"),
]
FUSED = [
    (["flash_attention", "fused_kernels", "fused_projections", "swiglu_recompute"], "fp32"),
    (["flash_attention", "activation_checkpointing", "mixed_precision:dtype=bf16"], "bf16"),
]
GATED_BY_GELU = [
    (["flash_attention", "fused_kernels", "fused_projections"], "fp32"),
    (["flash_attention", "activation_checkpointing", "mixed_precision:dtype=bf16"], "bf16"),
]
CAPPED = [  # attention has a cap too, which no fused kernel has
    (["fused_linear_cross_entropy", "fused_kernels", "fused_projections"], "fp32"),
    (["fused_linear_cross_entropy:chunk=5", "activation_checkpointing", "mixed_precision:dtype=bf16"], "bf16"),
]
LATENT = [  # fused attention has one width for keys and values
    (["fused_kernels", "fused_projections", "activation_checkpointing"], "fp32"),
]
SINKS = [
    (["flash_attention", "fused_kernels", "fused_projections"], "fp32"),
]
# PEFT adapts linear modules; the experts of gpt-oss are none.
LINEAR = [
    (["flash_attention", "fused_kernels", "fused_projections", "swiglu_recompute"], "fp32"),
    (["activation_checkpointing"], "exact"),
]
TARGETS = {"DeepSeek V3": ["q_b_proj", "kv_b_proj", "down_proj"], "gpt-oss": ["q_proj", "v_proj"],
           "Qwen3-Next": ["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj"],
           "Granite 4": ["in_proj", "out_proj", "q_proj"]}


class Table:
    def __init__(self):
        self.failed = self.passed = 0
        self.skipped = []
        print(f"{'model':32} {'with':58} {'dtype':5} {'tensors':>7} {'worst':>8} {'limit':>7}  tensor")

    def compare(self, model, stack, dtype, ours, theirs, limit):
        with_ = " + ".join(plugin.split(":")[0] for plugin in stack) or "plain"
        if ours.keys() != theirs.keys():
            print(f"{model:32} {with_:58} {dtype:5} FAILED: other names: {sorted(ours.keys() ^ theirs.keys())}")
            self.failed += 1
            return
        errors = {name: error(ours[name], theirs[name]) for name in theirs}
        worst = max(errors, key=errors.get)
        of_decays = max(limit, OF_DECAYS) if dtype == "fp32" else limit
        # False for nan
        passed = all(e <= (of_decays if name.endswith(DECAYS) else limit) for name, e in errors.items())
        print(f"{model:32} {with_:58} {dtype:5} {len(errors):7} {errors[worst]:8.1e} {limit:7.0e}  {worst}"
              f"{'' if passed else '  FAILED'}", flush=True)
        self.passed += passed
        self.failed += not passed

    def skip(self, what, reason):
        self.skipped.append(f"{what}: {reason}")


def error(ours, theirs):
    if ours.shape != theirs.shape:
        return float("inf")
    difference, largest = (ours.double() - theirs.double()).abs().max(), theirs.double().abs().max()
    return (difference / largest).nan_to_num(nan=float("inf")).item() if largest > 0 else difference.item()


class Forward:
    """The worker's command `forward`. The first calls start the program; the others use one process of forward_many."""

    def __init__(self, by_itself):
        self.by_itself = by_itself
        self.many = None

    def __call__(self, folder, tokens, dtype, stack=()):
        """{name: tensor} of the tensors that it wrote."""
        with tempfile.TemporaryDirectory() as scratch:
            given, out = f"{scratch}/in.safetensors", f"{scratch}/out.safetensors"
            save_file({"input_ids": tokens}, given)
            if self.by_itself > 0:
                self.by_itself -= 1
                self.start(folder, given, out, dtype, stack)
            else:
                self.ask(folder, given, out, dtype, stack)
            return load_file(out)

    def start(self, folder, given, out, dtype, stack):
        command = [WORKER, "forward", "--model", folder, "--tokens", given, "--out", out, "--gradients",
                   "--dtype", dtype, "--device", "cpu"]
        for plugin in stack:
            command += ["--plugin", plugin]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")

    def ask(self, folder, given, out, dtype, stack):
        if self.many is None:
            self.many = subprocess.Popen([MANY], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True)
        request = {"model": str(folder), "tokens": given, "out": out, "dtype": dtype, "plugins": list(stack)}
        print(json.dumps(request), file=self.many.stdin, flush=True)
        answer = self.many.stdout.readline()
        if answer != "null\n":
            sys.exit(f"{request}\n{answer or self.many.wait()}")


forward = Forward(by_itself=4)


def precision(dtype):
    """A context in which transformers computes in this type."""
    return reference.InDouble() if dtype == "fp64" else contextlib.nullcontext()


def missing_plugins(stack):
    return [name for name in (plugin.split(":")[0] for plugin in stack)
            if not (BUILD / "plugins" / f"{name}.so").exists()]


def random_tokens(name, config, seed):
    generator = torch.Generator().manual_seed(seed)
    text = config.get_text_config()
    first = 1 if text.pad_token_id == 0 else 0  # the row of padding has no gradient in transformers
    return torch.randint(first, text.vocab_size, (2, LENGTHS.get(name, LENGTH)), generator=generator)


def check_model(table, name, config, seed):
    tokens = random_tokens(name, config, seed)
    for dtype in ("fp32", "fp64"):
        # fp64 parameters are drawn in fp64, so that a path through fp32 would show.
        with tempfile.TemporaryDirectory() as folder, precision(dtype):
            model = reference.make(config, seed)
            if name == "stored as bf16":
                reference.save_rounded(model, folder)
            else:
                reference.save(model, folder, "50KB" if name == "sharded" else "1GB")
            if name == "sharded" and len(list(Path(folder).glob("*.safetensors"))) < 3:
                sys.exit("the sharded model is not in several files")
            if name == "rope_parameters":
                reference.use_rope_parameters(folder)
            if name == "Qwen2.5-VL":
                reference.flatten_config(folder)
            if name == "Qwen 3.5 with experts and images":
                reference.join_experts(folder)
            table.compare(name, [], dtype, forward(folder, tokens, dtype), reference.evaluate(model, tokens),
                          LIMITS[dtype])


def check_stacks(table, name, config, seed, stacks):
    tokens = random_tokens(name, config, seed)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as lora_folder:
        model = reference.make(config, seed)
        reference.save(model, folder)
        theirs = reference.evaluate(model, tokens)
        plain = forward(folder, tokens, "fp32")
        for stack, limit in stacks:
            if absent := missing_plugins(stack):
                table.skip(" + ".join(stack), f"not built: {', '.join(absent)}")
                continue
            expected = plain if limit == "exact" else theirs
            table.compare(name, stack, "fp32", forward(folder, tokens, "fp32", stack), expected, LIMITS[limit])
        targets = TARGETS.get(name, ["q_proj", "v_proj", "down_proj"])
        lora = f"lora:rank=4,alpha=8,target_modules={','.join(targets)}"
        try:
            adapted = reference.add_lora(model, r=4, lora_alpha=8, target_modules=targets)
        except ImportError as missing:
            table.skip("lora", str(missing))
            return
        reference.save_lora(adapted, folder, lora_folder)
        adapted.zero_grad()
        theirs = reference.evaluate(adapted, tokens)
        kernel = "fused_linear_cross_entropy" if stacks in (CAPPED, LATENT) else "flash_attention"
        for stack in ([lora], [lora, kernel, "activation_checkpointing"]):
            if absent := missing_plugins(stack):
                table.skip(" + ".join(stack), f"not built: {', '.join(absent)}")
                continue
            table.compare(f"{name} (peft)", stack, "fp32", forward(lora_folder, tokens, "fp32", stack), theirs,
                          LIMITS["fp32"])


def check_low_precision_norm(table):
    """OLMo's LayerNorm without parameters, with input and result in bf16 under autocast.

    In fp32 and fp64 it equals transformers. transformers lacks OLMo's option low_precision, which the patch below adds.
    """
    name, stack = "OLMo, tied", ["low_precision_norm"]
    if missing_plugins([*stack, "mixed_precision"]):
        return table.skip("low_precision_norm", "not built")
    config, layer_norm = MODELS[name], transformers.models.olmo.modeling_olmo.OlmoLayerNorm
    tokens = torch.randint(config.vocab_size, (2, LENGTH), generator=torch.Generator().manual_seed(60))
    for dtype in ("fp32", "fp64"):
        with tempfile.TemporaryDirectory() as folder, precision(dtype):
            model = reference.make(config, 60)
            reference.save(model, folder)
            theirs = reference.evaluate(model, tokens)
            table.compare(name, stack, dtype, forward(folder, tokens, dtype, stack), theirs, LIMITS[dtype])

    def low_precision(self, x):
        with torch.autocast("cpu", enabled=False):
            return torch.nn.functional.layer_norm(x.bfloat16(), self.normalized_shape, eps=1e-5)

    in_fp32, layer_norm.forward = layer_norm.forward, low_precision
    try:
        with tempfile.TemporaryDirectory() as folder:
            model = reference.make(config, 60)
            reference.save(model, folder)
            with torch.autocast("cpu", torch.bfloat16):
                theirs = reference.evaluate(model, tokens)
            with_norm = forward(folder, tokens, "fp32", [*stack, "mixed_precision:dtype=bf16"])
            rounded = {key: value.float() for key, value in theirs.items()}
            table.compare(name, [*stack, "mixed_precision"], "bf16", with_norm, rounded, LIMITS["bf16"])
            without = forward(folder, tokens, "fp32", ["mixed_precision:dtype=bf16"])
            if torch.equal(with_norm["logits"], without["logits"]):
                sys.exit("low_precision_norm does not show in the logits")
    finally:
        layer_norm.forward = in_fp32


def check_mxfp4(table):
    """The experts of gpt-oss as blocks of 4-bit numbers, which transformers decodes for the reference."""
    name, generator = "gpt-oss in MXFP4", torch.Generator().manual_seed(51)
    config = transformers.GptOssConfig(**MODELS["gpt-oss"].to_dict() | {"intermediate_size": 96})
    tokens = torch.randint(config.vocab_size, (2, LENGTH), generator=generator)
    model, packed = reference.make(config, 51), {}
    for parameter, value in model.named_parameters():
        if not parameter.endswith((".gate_up_proj", ".down_proj")):
            continue
        experts, width, rows = value.shape
        shape = (experts, rows, width // 32)
        packed[parameter + "_blocks"] = torch.randint(256, (*shape, 16), generator=generator, dtype=torch.uint8)
        packed[parameter + "_scales"] = torch.randint(120, 126, shape, generator=generator, dtype=torch.uint8)
        parts = packed[parameter + "_blocks"], packed[parameter + "_scales"]
        value.data.copy_(convert_moe_packed_tensors(*parts, dtype=torch.float32))
    with tempfile.TemporaryDirectory() as folder:
        reference.save(model, folder)
        weights = load_file(f"{folder}/model.safetensors")
        stored = {key: value for key, value in weights.items() if key + "_blocks" not in packed}
        save_file(stored | packed, f"{folder}/model.safetensors")
        path = Path(folder) / "config.json"
        quantized = json.loads(path.read_text()) | {"quantization_config": {"quant_method": "mxfp4"}}
        path.write_text(json.dumps(quantized))
        table.compare(name, [], "fp32", forward(folder, tokens, "fp32"), reference.evaluate(model, tokens),
                      LIMITS["fp32"])


def check_router_losses(table):
    """With one layer: for several, transformers computes the loss from the shares of all layers together."""
    name, balance = "Mixtral, one layer", 0.3
    config = transformers.MixtralConfig(**small(num_hidden_layers=1, num_key_value_heads=2), num_local_experts=4,
                                        num_experts_per_tok=2, output_router_logits=True, router_aux_loss_coef=balance)
    stack = [f"router_losses:balance={balance}"]
    if missing_plugins(stack):
        return table.skip("router_losses", "not built")
    tokens = torch.randint(config.vocab_size, (2, LENGTH), generator=torch.Generator().manual_seed(50))
    with tempfile.TemporaryDirectory() as folder:
        model = reference.make(config, 50)
        reference.save(model, folder)
        path = Path(folder) / "config.json"
        path.write_text(path.read_text().replace('"output_router_logits": true', '"output_router_logits": false'))
        ours, plain = forward(folder, tokens, "fp32", stack), forward(folder, tokens, "fp32")
        theirs = reference.evaluate(model, tokens)
    gate = "grad.model.layers.0.mlp.gate.weight"
    if error(plain[gate], theirs[gate]) < 100 * LIMITS["fp32"]:
        sys.exit("the load-balancing loss does not show in the gradient of the router")
    for tensors in (ours, theirs):
        del tensors["loss"]  # transformers adds the load-balancing loss
    table.compare(name, stack, "fp32", ours, theirs, LIMITS["fp32"])


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(2)
    table = Table()
    for seed, (name, config) in enumerate(MODELS.items()):
        check_model(table, name, config, seed)
    check_mxfp4(table)
    if "--plain" not in sys.argv:
        check_plugins(table)
    for line in table.skipped:
        print("skipped:", line)
    print(f"{table.passed} passed, {table.failed} failed, {len(table.skipped)} skipped")
    return 1 if table.failed or not table.passed else 0


def check_plugins(table):
    exact = [stack for stack in FUSED if stack[1] != "bf16"]  # rounding may send a token to another expert
    stacks_of = {"2 heads a kv head, tied": STACKS, "Qwen 2, windows of 8": FUSED, "Qwen 3, biases, windows": FUSED,
                 "OLMo 2": FUSED, "SmolLM3": FUSED, "Qwen 3 MoE": exact, "Gemma 3, linear rope, biases": GATED_BY_GELU,
                 "Gemma 2": CAPPED, "Granite": FUSED, "GLM 4.5 with experts": exact, "DeepSeek V3": LATENT,
                 "Qwen3-Next": LINEAR, "Granite 4": LINEAR, "gpt-oss": SINKS}
    for seed, (name, stacks) in enumerate(stacks_of.items()):
        check_stacks(table, name, MODELS[name], 20 + seed, stacks)
    check_router_losses(table)
    check_low_precision_norm(table)


if __name__ == "__main__":
    sys.exit(main())
