#!/usr/bin/env python3
"""Measures the error of attention scores q k^T / sqrt(K) in bf16 with rotary tables in fp32 and in bf16.

The reference is exact rotations.

usage: bench/rotary_tables.py        (the Python of the build: .venv/bin/python)
"""

import torch

WIDTH, BASE, PAIRS = 64, 500000.0, 20000
FREQUENCIES = BASE ** (-2 * torch.arange(WIDTH // 2, dtype=torch.float64) / WIDTH)


def tables(positions):
    angles = positions.double()[:, None] * FREQUENCIES
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def scores(q, k):
    return (q.double() * k.double()).sum(-1) / WIDTH**0.5


# Type of the tables, type of the arithmetic.
FORMS = {
    "fp32 tables, fp32 arithmetic (ours, fused or not)": (torch.float32, torch.float32),
    "bf16 tables, fp32 arithmetic": (torch.bfloat16, torch.float32),
    "bf16 tables, bf16 arithmetic (transformers, model in bf16)": (torch.bfloat16, torch.bfloat16),
}

if __name__ == "__main__":
    torch.manual_seed(0)
    print(
        f"{'root mean square error of a score, positions up to':60}" + "".join(f"{n:>10}" for n in (512, 4096, 131072))
    )
    rows = {name: [] for name in FORMS}
    for top in (512, 4096, 131072):
        at_q = torch.randint(0, top, (PAIRS,))
        at_k = (at_q - torch.randint(0, 512, (PAIRS,))).clamp_min(0)
        q, k = (torch.randn(PAIRS, WIDTH).bfloat16() for _ in range(2))
        exact = scores(rotate(q.double(), *tables(at_q)), rotate(k.double(), *tables(at_k)))
        for name, (table, arithmetic) in FORMS.items():
            rotated = [
                rotate(x.to(arithmetic), *(t.to(table).to(arithmetic) for t in tables(at))).bfloat16()
                for x, at in ((q, at_q), (k, at_k))
            ]
            rows[name].append((scores(*rotated) - exact).square().mean().sqrt().item())
    for name, errors in rows.items():
        print(f"{name:60}" + "".join(f"{error:10.1e}" for error in errors))
