"""Attention of the PyTorch programs: causal, without a mask, and the name of the kernel that computed it.

Inside torch.compile, transformers builds a dense mask from the positions, because it cannot read their values there. A
mask computes every pair of positions, repeats keys and values, and rules out most fused kernels. `use_causal` gives a
model an attention that never has a mask.
"""
import torch
from transformers import AttentionInterface, AttentionMaskInterface

CAUSAL = "causal_sdpa"
PREFIX = "aten::_scaled_dot_product_"
# Parts of the names of attention kernels on a GPU: FlashAttention, cuDNN, the memory-efficient kernel.
GPU_KERNELS = ("flash", "sdpa", "fmha")


def has_grouped_kernel(query):
    """Whether a fused kernel takes fewer heads of keys than of queries. On a GPU in fp32 none does, and torch would
    choose its unfused form, which keeps every pair of positions."""
    device = query.device.type
    return device != "cuda" or query.dtype != torch.float32 or torch.is_autocast_enabled(device)


def causal(module, query, key, value, attention_mask, dropout=0.0, scaling=None, sliding_window=None, **others):
    """Scaled dot-product attention of (B, H, S, D) queries and (B, Hkv, S, D) keys and values."""
    assert attention_mask is None, "a mask reached the attention that has none"
    if sliding_window is not None and sliding_window < key.shape[-2]:
        raise ValueError(f"this attention has no window of {sliding_window} positions; use the form 'shipped'")
    grouped = query.shape[1] != key.shape[1]
    if grouped and not has_grouped_kernel(query):
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        grouped = False
    result = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, dropout_p=dropout, is_causal=True, scale=scaling, enable_gqa=grouped)
    return result.transpose(1, 2).contiguous(), None


def no_mask(*arguments, **others):
    return None


def use_causal(model):
    AttentionInterface.register(CAUSAL, causal)
    AttentionMaskInterface.register(CAUSAL, no_mask)
    model.set_attn_implementation(CAUSAL)


def kernels(profile):
    """Names of the attention kernels that a profiled step ran, and whether one of them had a mask. A mask is a tensor
    after queries, keys and values. A replayed CUDA graph has no operators: there the names are those of its kernels on
    the GPU, and a mask is not seen."""
    names, on_gpu, masked = set(), set(), False
    for event in profile.events():
        # An operator that calls another one of these is not the kernel.
        if event.name.startswith(PREFIX) and not event.name.endswith("_backward"):
            names.add(event.name.removeprefix(PREFIX).removesuffix("_attention"))
            masked = masked or any(event.input_shapes[3:])
        elif event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith("triton_"):
            # Without the types of a template. Inductor names its kernels after the operators around them.
            name = event.name.split("<")[0]
            on_gpu.update({name} if any(part in name for part in GPU_KERNELS) else ())
    return sorted(names or on_gpu), masked
