"""Attention of the PyTorch programs: causal, without a mask, and the name of the kernel that computed it.

Inside torch.compile, transformers builds a dense mask from the positions, because it cannot read their values there. A
mask computes every pair of positions, repeats keys and values, and rules out most fused kernels. `use_causal` gives a
model an attention that never has a mask.
"""
import torch
from transformers import AttentionInterface, AttentionMaskInterface

CAUSAL = "causal_sdpa"
PREFIX = "aten::_scaled_dot_product_"


def causal(module, query, key, value, attention_mask, dropout=0.0, scaling=None, sliding_window=None, **others):
    """Scaled dot-product attention of (B, H, S, D) queries and (B, Hkv, S, D) keys and values."""
    assert attention_mask is None, "a mask reached the attention that has none"
    if sliding_window is not None and sliding_window < key.shape[-2]:
        raise ValueError(f"this attention has no window of {sliding_window} positions; use the form 'shipped'")
    result = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, dropout_p=dropout, is_causal=True, scale=scaling, enable_gqa=query.shape[1] != key.shape[1])
    return result.transpose(1, 2).contiguous(), None


def no_mask(*arguments, **others):
    return None


def use_causal(model):
    AttentionInterface.register(CAUSAL, causal)
    AttentionMaskInterface.register(CAUSAL, no_mask)
    model.set_attn_implementation(CAUSAL)


def kernels(profile):
    """Names of the attention kernels that a profiled step ran, and whether one of them had a mask. A mask is a tensor
    after queries, keys and values. A profile of a replayed CUDA graph has no operators, so it names no kernel."""
    names, masked = set(), False
    for event in profile.events():
        # An operator that calls another one of these is not the kernel.
        if event.name.startswith(PREFIX) and not event.name.endswith("_backward"):
            names.add(event.name.removeprefix(PREFIX).removesuffix("_attention"))
            masked = masked or any(event.input_shapes[3:])
    return sorted(names), masked
