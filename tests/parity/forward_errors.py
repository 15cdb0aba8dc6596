"""`optrush-worker forward` with bad input: the exit code, and a message that names the problem and the cure."""
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
    import reference
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

WORKER = Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin" / "optrush-worker"
CONFIG = transformers.LlamaConfig(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                                  num_attention_heads=4, tie_word_embeddings=True)


class Forward:
    """Runs the worker on a model and tokens. A case may spoil them first."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.model = self.folder / "model"
        self.tokens = self.folder / "in.safetensors"
        self.out = self.folder / "out.safetensors"
        reference.save(reference.make(CONFIG, 1), self.model)
        self.write_tokens(torch.arange(10).view(2, 5))

    def write_tokens(self, tokens, name="input_ids"):
        save_file({name: tokens}, self.tokens)

    def change_config(self, **fields):
        path = self.model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    def change_weights(self, change):
        path = self.model / "model.safetensors"
        weights = load_file(path)
        change(weights)
        save_file(weights, path)

    def run(self, *arguments):
        command = [WORKER, "forward", "--model", self.model, "--tokens", self.tokens, "--out", self.out, *arguments]
        if "--device" not in arguments:
            command += ["--device", "cpu"]
        return subprocess.run(command, capture_output=True, text=True)


def swap(weights):
    weights["model.norm.wieght"] = weights.pop("model.norm.weight")


def grow(weights):
    weights["model.norm.weight"] = torch.ones(33)


def add(weights):
    weights["model.layers.1.mlp.up_proj.weight"] = torch.ones(48, 32)


# (a function that spoils the input, arguments, exit code, words of the message)
CASES = [
    (lambda f: f.write_tokens(torch.full((1, 5), 97)), [], 1, ["tokens from 97 to 97", "are 0 to 96"]),
    (lambda f: f.write_tokens(torch.full((1, 5), -1)), [], 1, ["tokens from -1"]),
    (lambda f: f.write_tokens(torch.ones(1, 5)), [], 1, ["must be int64", "in.safetensors"]),
    (lambda f: f.write_tokens(torch.arange(5)), [], 1, ["shape (B, S)"]),
    (lambda f: f.write_tokens(torch.zeros(5, 1, dtype=torch.int64)), [], 1, ["at least 2"]),
    (lambda f: f.write_tokens(torch.arange(5).view(1, 5), "input_id"), [], 1, ["did you mean 'input_id'"]),
    (lambda f: f.tokens.write_bytes(b"nonsense"), [], 1, ["not a safetensors file"]),
    (lambda f: f.tokens.unlink(), [], 1, ["in.safetensors", "No such file"]),
    (lambda f: f.change_weights(swap), [], 1, ["no 'model.norm.weight'", "did you mean 'model.norm.wieght'"]),
    (lambda f: f.change_weights(grow), [], 1, ["[33]", "[32]"]),
    (lambda f: f.change_weights(add), [], 1,
     ["'model.layers.1.mlp.up_proj.weight', which the model of its config.json does not"]),
    (lambda f: f.change_config(hidden_act="relu"), [], 1, ["'hidden_act'", "config.json"]),
    (None, ["--dtype", "fp8"], 1, ["fp8", "bf16, fp32, fp64"]),
    (None, ["--device", "tpu"], 1, ["unknown device 'tpu'"]),
    (None, ["--plugin", "lara"], 1, ["did you mean 'lora'"]),
    (None, ["--plugin", "lora:rnk=8"], 1, ["unknown option 'rnk'", "did you mean 'rank'"]),
    (None, ["--plugin", "lora:rank=many"], 1, ["'rank'", "many"]),
    (None, ["--plugin", "lora:8"], 2, ["'8' is not key=value"]),
    (None, ["--plugin", "lora:rank=8,rank=4"], 2, ["'rank' is given twice"]),
    (None, ["--plugin", "lora", "--plugin", "lora"], 1, ["stacked twice"]),
]


def check(spoil, arguments, code, words):
    with tempfile.TemporaryDirectory() as folder:
        forward = Forward(folder)
        if spoil:
            spoil(forward)
        done = forward.run(*arguments)
        problems = [f"does not say {word!r}" for word in words if word not in done.stderr]
        if done.returncode != code:
            problems.append(f"exit code {done.returncode}, not {code}")
        if forward.out.exists():
            problems.append("wrote a result")
        for problem in problems:
            print(f"{' '.join(arguments) or words[0]}: {problem}\n  {done.stderr}")
        return not problems


def main():
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        forward = Forward(folder)
        done = forward.run()
        assert done.returncode == 0, done.stderr
        assert load_file(forward.out).keys() == {"logits", "loss"}, "without --gradients"
    passed = sum([check(*case) for case in CASES])
    print(f"{passed} of {len(CASES)} passed")
    return passed != len(CASES)


if __name__ == "__main__":
    sys.exit(main())
