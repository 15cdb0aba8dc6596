"""The forms in which PyTorch users train a model of transformers, applied to a loaded model.

    shipped  torch.compile over model and loss, as transformers is: with a dense mask
    whole    torch.compile over model and loss, with an attention without a mask
    blocks   each block compiled alone, then the head with the loss: the recipe of torchtitan and torchtune
"""
import importlib
import sys

import attention
import torch

FORMS = ("shipped", "whole", "blocks")
NEEDS = {"liger": ("liger_kernel", "liger-kernel"), "float8": ("torchao", "torchao")}


def missing(technique, device):
    """The reason why a technique cannot be used here; "" if it can."""
    if technique == "liger" and device != "cuda":
        return "Liger's kernels are written in Triton and need a GPU"
    if technique == "float8" and device == "cuda" and torch.cuda.get_device_capability() < (8, 9):
        return f"float8 needs a GPU of compute capability 8.9, and this one has {torch.cuda.get_device_capability()}"
    module, package = NEEDS[technique]
    try:
        importlib.import_module(module)
    except ImportError as error:
        return f"{error}\n{sys.executable} -m pip install {package}"
    return ""


def to_float8(model, device):
    """Linears multiply in float8 with one scale per tensor, all but the head. On a CPU, torchao emulates the products
    in fp32."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    def chosen(module, name):
        return name != "lm_head" and not any(size % 16 for size in module.weight.shape)

    convert_to_float8_training(model, config=Float8LinearConfig(emulate=device != "cuda"), module_filter_fn=chosen)


def use_liger(model):
    """Liger's rotary embedding, norms and SwiGLU. `liger_loss` is its loss."""
    from liger_kernel.transformers import _apply_liger_kernel_to_instance

    _apply_liger_kernel_to_instance(model=model, cross_entropy=False, fused_linear_cross_entropy=False)


def sum_of_losses(logits, labels):
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="sum")


def liger_loss(model):
    """The sum of the losses of labels, from the hidden state (B, S, D): Liger's head fused with the loss."""
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

    loss = LigerFusedLinearCrossEntropyLoss(reduction="sum")
    return lambda hidden, labels: loss(model.lm_head.weight, hidden.flatten(0, 1), labels.flatten())


def by_blocks(model, mode):
    """Compiles each block, and the head with the loss. Returns the loss of inputs and labels (B, S)."""
    for block in model.model.layers:
        block.compile(fullgraph=True, mode=mode)
    end = torch.compile(lambda hidden, labels: sum_of_losses(model.lm_head(hidden), labels), mode=mode, fullgraph=True)
    return lambda inputs, labels: end(model.model(input_ids=inputs, use_cache=False).last_hidden_state, labels)


def loss_of(model, mode, form, techniques, device):
    """The program that computes the sum of the losses of labels, from inputs (B, S): a form of `model`, which it
    changes. `mode` of torch.compile; None: eager."""
    if "sdpa" in techniques and form != "shipped":
        attention.use_causal(model)
    if "float8" in techniques:
        to_float8(model, device)
    if "liger" in techniques:
        use_liger(model)
        end = liger_loss(model)
        return lambda inputs, labels: end(model.model(input_ids=inputs, use_cache=False).last_hidden_state, labels)
    if mode and form == "blocks":
        return by_blocks(model, mode)

    def whole(inputs, labels):
        return sum_of_losses(model(input_ids=inputs, use_cache=False).logits, labels)

    return torch.compile(whole, mode=mode) if mode else whole
