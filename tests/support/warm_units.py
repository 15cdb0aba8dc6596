"""Lowers the units of a small model, so that Inductor keeps its simplifications and look-ups.

Nothing is compiled. autograd runs no backward, because it would start threads, which a fork lacks."""
import tempfile

import torch
import torch._inductor
import torch._inductor.codecache as codecache
import tqdm
from torch._inductor import config
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

BATCH, LENGTH, WIDTH, HEADS, HIDDEN, VOCABULARY = 4, 16, 32, 4, 48, 64
HEAD = WIDTH // HEADS


def normed(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight


def rotated(x, cosine, sine):
    return x * cosine + torch.cat((-x[..., HEAD // 2:], x[..., : HEAD // 2]), -1) * sine


def block(x, weight, query, key, value, out, gate, up, down, cosine, sine):
    y = normed(x, weight)
    q, k, v = ((y @ matrix.t()).view(BATCH, LENGTH, -1, HEAD).transpose(1, 2) for matrix in (query, key, value))
    q, k = rotated(q, cosine, sine), rotated(k, cosine, sine)
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    attended = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + attended.transpose(1, 2).reshape(x.shape) @ out.t()
    y = normed(x, weight)
    return (x + (torch.nn.functional.silu(y @ gate.t()) * (y @ up.t())) @ down.t(),)


def head(x, weight, matrix, labels):
    logits = (normed(x, weight) @ matrix.t()).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="sum")
    likely = torch.softmax(logits, -1)
    return loss, likely.sum(-1), likely.sum(0), (likely.unsqueeze(1) * logits.unsqueeze(2)).sum((0, 1))


def inputs():
    def of(*shape):
        return torch.zeros(shape)

    x, weight, rotation = of(BATCH, LENGTH, WIDTH), of(WIDTH), of(LENGTH, HEAD)
    square, narrow, wide, tall = of(WIDTH, WIDTH), of(WIDTH // 2, WIDTH), of(HIDDEN, WIDTH), of(WIDTH, HIDDEN)
    yield block, (x, weight, square, narrow, narrow, square, wide, wide, tall, rotation, rotation)
    yield head, (x, weight, of(VOCABULARY, WIDTH), torch.zeros(BATCH, LENGTH, dtype=torch.long))


def lower():
    tqdm.tqdm.monitor_interval = 0  # no monitor thread
    threads, compile_code = torch.get_num_threads(), codecache.AotCodeCompiler.compile
    torch.set_num_threads(1)
    codecache.AotCodeCompiler.compile = lambda *arguments, **named: []
    try:
        with torch.no_grad(), tempfile.TemporaryDirectory() as build:
            with config.patch({"aot_inductor.output_path": build, "aot_inductor.package": True}):
                for unit, arguments in inputs():
                    graph = make_fx(unit, decomposition_table=select_decomp_table(), tracing_mode="fake")(*arguments)
                    torch._inductor.aot_compile(graph, arguments)
    finally:
        codecache.AotCodeCompiler.compile = compile_code
        torch.set_num_threads(threads)
