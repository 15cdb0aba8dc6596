"""Chats, models and runs of `optrush tokenize` for its tests."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
TEMPLATE = """{{ bos_token }}{% for m in messages %}<|head|>{{ m.role }}<|/head|>
{% if m.role == 'assistant' %}{% generation %}{{ KEPT }}<|eot|>{% endgeneration %}\
{% else %}{{ m.content }}<|eot|>{% endif %}{% endfor %}\
{% if add_generation_prompt %}<|head|>assistant<|/head|>
{% endif %}"""
CHATS = [
    [("user", "What is 2 + 2?"), ("assistant", "4")],
    [("system", "Be brief."), ("user", "hello"), ("assistant", "Hello!"), ("user", "Who are you?"),
     ("assistant", "\nA model.\n")],
    [("user", "ünïcödé ☃?"), ("assistant", "☃ ☃"), ("user", "again"), ("assistant", "☃"), ("user", "and?"),
     ("assistant", "no")],
]


def messages(chat):
    return [{"role": role, "content": content} for role, content in chat]


# A template like ChatML, with a line end behind the token that ends a turn.
WITH_LINES = TEMPLATE.replace("{% endgeneration %}", "{% endgeneration %}{{ '\\n' }}").replace("KEPT", "m.content")
# A template that writes the system's text only beside the last message.
SYSTEM_LAST = """{% set said = messages[0].content + ' ' if messages[0].role == 'system' else '' %}\
{% for m in messages %}{% if m.role == 'user' %}\
<|head|>{{ said if loop.last or loop.nextitem is not defined else '' }}{{ m.content }}<|/head|>\
{% elif m.role == 'assistant' %}{{ m.content }}<|eot|>{% endif %}{% endfor %}"""


def save_model(folder, kept="m.content", template=TEMPLATE, added=()):
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    words = [content for chat in CHATS for _, content in chat] * 3 + ["user assistant system"]
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=["<|bos|>", "<|eot|>", "<|head|>", "<|/head|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator(words, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<|bos|>", eos_token="<|eot|>")
    tokenizer.add_tokens(list(added))
    tokenizer.chat_template = template.replace("KEPT", kept) if template else None
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2)
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return tokenizer, model


# OPTRUSH_PYTHON names a Python that has imported transformers. Users do not have it.
AS_USERS = {name: value for name, value in os.environ.items() if name != "OPTRUSH_PYTHON"}


def optrush(*arguments, cwd, environment=None):
    command = [BUILD / "bin/optrush", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


def script():
    sys.path.insert(0, str(SOURCE / "scripts"))  # where Python looks first when it starts the script
    spec = importlib.util.spec_from_file_location("tokenize_documents", SOURCE / "scripts/tokenize_documents.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = script()


def tokenized(work, lines, *options, model="model"):
    """Runs the script of `optrush tokenize` in this process, because importing transformers takes seconds."""
    source, target, said = work / "in.jsonl", work / "out.jsonl", io.StringIO()
    source.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = SCRIPT.main([str(source), str(target), "--model", str(work / model), *options])
    made = [json.loads(line) for line in target.read_text().splitlines()] if code == 0 else None
    target.unlink(missing_ok=True)
    left = [path.name for path in work.glob(".tokenize-*")]
    assert not left, left
    return made, said.getvalue()


def mask_of(line):
    mask = [0] * len(line["tokens"])
    for begin, end in line["trained"]:
        mask[begin:end] = [1] * (end - begin)
    return mask
