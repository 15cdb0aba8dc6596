"""Reference results of transformers and peft: logits, loss and every gradient of a small random model."""
import copy
import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode


FUSED_EXPERTS = int(transformers.__version__.split(".")[0]) >= 5  # one tensor has all experts of a layer


class InDouble(TorchFunctionMode):
    """Makes transformers compute in float64, so that the reference is exact to 1e-12.

    transformers computes norms, softmax, rotary tables and loss in float32 for a model of any type. In this mode it
    gets float64 wherever it asks for float32.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            return args[0].double()
        wide = lambda value: torch.float64 if value is torch.float32 else value
        return func(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})

    def __enter__(self):
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *exception):
        torch.set_default_dtype(torch.float32)
        return super().__exit__(*exception)


def make(config, seed):
    """A model with random values for every parameter, also of norms: ones and zeros would hide a mistake."""
    torch.manual_seed(seed)
    # A copy, because saving a model writes its dtype into its config. The grouped product of experts needs even sizes.
    plain = {"attn_implementation": "eager"} | ({"experts_implementation": "eager"} if FUSED_EXPERTS else {})
    kind = transformers.AutoModelForImageTextToText if has_encoder(config) else transformers.AutoModelForCausalLM
    model = kind.from_config(copy.deepcopy(config), **plain)
    assert all(parameter.dtype == torch.get_default_dtype() for parameter in model.parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Gemma 1 to 3 and Qwen 3.5 multiply by 1 + the weight of a norm, except behind the delta rule.
            of_1 = config.model_type.startswith(("gemma", "qwen3_next", "qwen3_5"))
            from_1 = of_1 and not config.model_type.startswith("gemma4")
            centre = 1.0 if "norm" in name and (not from_1 or "linear_attn" in name) else 0.0
            if config.model_type.startswith("gemma4") and "q_norm" in name:
                centre = 0.2  # the scores have no other scale
            parameter.normal_(centre, 0.1)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.normal_(0.0, 0.1)
            if name.endswith(".layer_scalar"):
                buffer.normal_(1.0, 0.1)
    return model.train()


def has_encoder(config):
    return hasattr(config, "vision_config")


def save(model, folder, max_shard_size="1GB"):
    model.save_pretrained(folder, safe_serialization=True, max_shard_size=max_shard_size)


def save_rounded(model, folder):
    """Saves the model with its parameters rounded to bf16."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    model.save_pretrained(folder, state_dict={name: value.bfloat16() for name, value in model.state_dict().items()})


def use_rope_parameters(folder):
    """Rewrites config.json in the form of newer versions of transformers, unless it has that form."""
    path = Path(folder) / "config.json"
    config = json.loads(path.read_text())
    if "rope_parameters" in config:
        return
    config["rope_parameters"] = {**(config.pop("rope_scaling") or {"rope_type": "default"}),
                                 "rope_theta": config.pop("rope_theta")}
    path.write_text(json.dumps(config))


def flatten_config(folder):
    """The fields of the text model are among those of the whole one, as in published files of Qwen2.5-VL."""
    path = Path(folder) / "config.json"
    config = json.loads(path.read_text())
    text = config.pop("text_config")
    path.write_text(json.dumps({**text, **config}))


def join_experts(folder):
    """One tensor has all experts of a layer, as in published files of Qwen 3.5."""
    file = Path(folder) / "model.safetensors"
    weights, experts = load_file(file), {}
    for name in list(weights):
        layer, inside, expert = name.partition(".experts.")
        if inside:
            number, matrix, _ = expert.split(".")
            experts.setdefault(layer, {}).setdefault(matrix, {})[int(number)] = weights.pop(name)
    for layer, matrices in experts.items():
        gate, up, down = (torch.stack([matrices[key][i] for i in sorted(matrices[key])])
                          for key in ("gate_proj", "up_proj", "down_proj"))
        weights |= {f"{layer}.experts.gate_up_proj": torch.cat([gate, up], 1), f"{layer}.experts.down_proj": down}
    assert experts
    save_file(weights, file)


def evaluate(model, tokens):
    """The tensors that `optrush forward --gradients` writes."""
    # Of each token: whether it belongs to an image.
    images = {"token_type_ids": torch.zeros_like(tokens)} if model.config.model_type == "gemma3" else {}
    result = model(input_ids=tokens, labels=tokens, use_cache=False, **images)
    result.loss.backward()
    tensors = {"logits": result.logits.detach(), "loss": result.loss.detach()}
    text = model.config.get_text_config()
    for name, parameter in model.named_parameters():
        of_text = any(part in name for part in ("language_model", "text_model", "lm_head"))
        if has_encoder(model.config) and not of_text:
            continue
        if parameter.requires_grad:
            # An expert without tokens has no gradient.
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parts = one_by_one(name, gradient, text)
            tensors.update({"grad." + plain_name(part): value.contiguous() for part, value in parts})
    return tensors


def granite_name(name, config):
    """The name of a joined tensor of Granite 4 as other classes have it."""
    experts, shared = ".block_sparse_moe.experts.", ".mlp.shared_expert." if config.num_local_experts else ".mlp."
    for theirs, ours in ((".block_sparse_moe.input_linear.weight", experts + "gate_up_proj"),
                         (".block_sparse_moe.output_linear.weight", experts + "down_proj"),
                         (".shared_mlp.input_linear.", shared + "gate_up_proj."),
                         (".shared_mlp.output_linear.", shared + "down_proj."), (".router.layer.", ".router.")):
        name = name.replace(theirs, ours)
    return name


def nemotron_name(name, config):
    """The name of a parameter of Nemotron-H as other classes have it: a block is one or two of its layers."""
    parts = name.split(".")
    if parts[:2] != ["model", "layers"]:
        return name.replace("model.embeddings.", "model.embed_tokens.").replace("model.norm_f.", "model.norm.")
    kinds, layer = config.layers_block_type, int(parts[2])
    mixers = {"linear_attention": "mamba", "full_attention": "self_attn"}
    block = sum(kind in mixers for kind in kinds[:layer + 1]) - 1
    of_norm = "input_layernorm" if kinds[layer] in mixers else "post_attention_layernorm"
    part = of_norm if parts[3] == "norm" else mixers.get(kinds[layer], "mlp")
    return ".".join(["model.layers", str(block), part, *parts[4:]])


def one_by_one(name, tensor, config):
    """The parts of joined tensors by their names: of all experts, of queries, keys and values, of gate and up."""
    if config.model_type == "granitemoehybrid":
        name = granite_name(name, config)
    if config.model_type == "nemotron_h":
        name = nemotron_name(name, config)
    of_experts, _, matrices = name.rpartition(".experts.")
    alternating = config.model_type == "gpt_oss"
    if of_experts and (tensor.dim() == 3 or alternating):
        kind_of_tensor = "bias" if matrices.endswith("_bias") else "weight"
        matrices = matrices.removesuffix("_bias")
        kinds = ["gate_proj", "up_proj"] if matrices == "gate_up_proj" else [matrices]
        found = []
        for expert, whole in enumerate(tensor):
            rows = whole.t() if alternating and whole.dim() == 2 else whole  # gpt-oss has (in, out)
            parts = [rows[i::len(kinds)] for i in range(len(kinds))] if alternating else rows.chunk(len(kinds))
            found += [(f"{of_experts}.experts.{expert}.{kind}.{kind_of_tensor}", part)
                      for kind, part in zip(kinds, parts)]
        return found
    if name.endswith("qkv_proj.weight"):
        width = tensor.shape[0] // (config.num_attention_heads + 2 * config.num_key_value_heads)
        sizes = [width * heads for heads in (config.num_attention_heads, *[config.num_key_value_heads] * 2)]
        return [(name.replace("qkv_proj", kind + "_proj"), part) for kind, part in zip("qkv", tensor.split(sizes))]
    if name.endswith("gate_up_proj.weight"):
        return [(name.replace("gate_up", kind), part) for kind, part in zip(("gate", "up"), tensor.chunk(2))]
    return [(name, tensor)]


def plain_name(name):
    """Our name of a parameter: without peft's wrappers, and without the names of single classes."""
    of_mixtral = (("block_sparse_moe", "mlp"), (".w1.", ".gate_proj."), (".w2.", ".down_proj."), (".w3.", ".up_proj."))
    of_peft = (("base_model.model.", ""), (".base_layer.", "."), (".modules_to_save.", "."), (".default.", "."),
               (".lora_magnitude_vector.weight", ".lora_magnitude_vector"))
    of_others = ((".shared_experts.", ".shared_expert."), (".router.", ".gate."), ("language_model.", ""),
                 ("text_model.", ""))
    for theirs, ours in (*of_peft, *of_mixtral, *of_others):
        name = name.replace(theirs, ours)
    return name


def add_lora(model, **options):
    """peft's LoRA with a random B, so that the gradient of A is not zero."""
    import peft

    torch.manual_seed(3)
    return peft.get_peft_model(model, peft.LoraConfig(lora_dropout=0.0, init_lora_weights=False, **options)).train()


def save_lora(model, base_folder, folder):
    """Writes the base's folder with A and B beside the weights, under names without peft's wrappers."""
    weights = load_file(Path(base_folder) / "model.safetensors")
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            weights[plain_name(name)] = parameter.detach().contiguous()
    save_file(weights, Path(folder) / "model.safetensors")
    (Path(folder) / "config.json").write_text((Path(base_folder) / "config.json").read_text())
