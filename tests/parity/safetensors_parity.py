"""We read and write files of the safetensors package bit for bit, and refuse the files that it refuses."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

COPY = Path(os.environ["OPTRUSH_BUILD_DIR"]) / "tests" / "bin" / "safetensors_copy"
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool]


def copy(*pairs):
    """The outcome of each copy: None, or the error."""
    done = subprocess.run([COPY, *(file for pair in pairs for file in pair)], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}{done.stderr}"
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ends) == len(pairs), ends
    return ends


def bits(tensor):
    return tensor.contiguous().flatten().view(torch.uint8)


def check_round_trip(folder):
    torch.manual_seed(1)
    tensors = {"scalar": torch.tensor(2.5), "empty": torch.empty(3, 0), "ünï\"c\\ode": torch.arange(3.0),
               "special": torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])}
    for dtype in DTYPES:
        tensors[str(dtype)] = torch.randn(5, 3, 7).mul(50).to(dtype)
    save_file(tensors, folder / "in.safetensors", metadata={"format": "pt"})
    assert copy((folder / "in.safetensors", folder / "out.safetensors")) == [None]
    copied = load_file(folder / "out.safetensors")
    assert copied.keys() == tensors.keys(), copied.keys() ^ tensors.keys()
    for name, tensor in tensors.items():
        assert copied[name].dtype == tensor.dtype and copied[name].shape == tensor.shape, name
        assert torch.equal(bits(copied[name]), bits(tensor)), name
    return len(tensors)


def check_refusals(folder):
    """Damages one byte at a time. The package decides whether the file is valid."""
    save_file({"a": torch.ones(2), "b": torch.zeros(1, dtype=torch.int64)}, folder / "valid.safetensors")
    valid = (folder / "valid.safetensors").read_bytes()
    header = int.from_bytes(valid[:8], "little")
    refused = []
    for place in range(0, 8 + header, 3):
        damaged = bytearray(valid)
        damaged[place] ^= 4
        file = folder / f"damaged-{place}.safetensors"
        file.write_bytes(damaged)
        try:
            load_file(file)
        except (SafetensorError, UnicodeDecodeError):
            refused.append(file)
    for file, error in zip(refused, copy(*((file, folder / "out.safetensors") for file in refused))):
        assert error is not None, f"{file.name}: the package refuses this file, and we read it"
        assert file.name in error, error
    refused = len(refused)
    assert refused > 10, refused
    return refused


def main():
    with tempfile.TemporaryDirectory() as scratch:
        print(f"{check_round_trip(Path(scratch))} tensors came back bit for bit")
        print(f"{check_refusals(Path(scratch))} damaged files were refused by both")


if __name__ == "__main__":
    main()
