"""`optrush tokenize`: transformers makes the same tokens and trained spans of the same chats.

A run on the tokens has the loss that transformers computes."""
import contextlib
import io
import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time

import tokenize_lines
import torch
from tokenize_support import AS_USERS, BUILD, CHATS, SCRIPT, mask_of, messages, optrush, save_model
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast


def as_llama2():
    """A tokenizer with a space before a text, no pre-tokenizer, bytes for unknown letters, and a begin token."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bpe.train_from_iterator([content for chat in CHATS for _, content in chat] * 3, trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]))
    bpe.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def as_unigram():
    unigram = Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=["<unk>", "</s>"], unk_token="<unk>")
    unigram.train_from_iterator([content for chat in CHATS for _, content in chat] * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=unigram, eos_token="</s>", unk_token="<unk>")


def with_end(tokenizer):
    """The tokenizer puts an end token behind each text."""
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def padded(tokenizer):
    """A tokenizer that was saved with padding on the left and truncation."""
    tokenizer.backend_tokenizer.enable_padding(direction="left", pad_id=0, pad_token="<unk>", length=64)
    tokenizer.backend_tokenizer.enable_truncation(8)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        tokenizer.backend_tokenizer.save(folder + "/tokenizer.json")
        return SCRIPT.load(folder)


def test_long_texts(tokenizer):
    """A text in parts has the tokens of the whole, for any tokenizer; begin and end tokens are not repeated."""
    import random
    random.seed(1)
    words = [word for chat in CHATS for _, content in chat for word in content.split()]
    gaps = [" ", "  ", "\n", "\n\n  ", ". ", "\r\n", ""]
    text = "".join(random.choice(words) + random.choice(gaps) for _ in range(4000))
    for each in (tokenizer, as_llama2(), with_end(as_llama2()), as_unigram(), padded(as_llama2())):
        said = []
        texts = SCRIPT.model_tokens.Texts(each, said.append)
        whole = each(text)["input_ids"]
        whole += [each.eos_token_id] if whole[-1] != each.eos_token_id else []
        for most in (2000, 3001):
            assert texts.long_text(text, most) == whole, each
        run = each("a" * 9000, add_special_tokens=False)["input_ids"]
        tokens_of_run = [*texts.begin, *run, each.eos_token_id]
        assert texts.long_text("a" * 9000, 2000) == tokens_of_run, "no place where two parts agree"
        begin = each.bos_token or ""
        framed = texts.text(begin + "hello" + each.eos_token)
        assert framed.count(each.eos_token_id) == 1 and framed[-1] == each.eos_token_id
        if begin:
            assert framed.count(each.bos_token_id) == 1
        # A text that is not trained may have an end token in its last place.
        given = each("hello" + each.eos_token, add_special_tokens=False)["input_ids"]
        assert texts.text("hello" + each.eos_token, ends=False) == [*texts.begin, *given]


def test_vocabularies(work):
    """A tokenizer may have more tokens than the model has rows; only texts with these tokens are refused."""
    tokenizer, _ = save_model(work / "padded")
    rows = len(tokenizer)
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    tokenizer.save_pretrained(work / "padded")
    target = work / "padded.bin"
    (work / "plain.txt").write_text("hello")
    (work / "pad.txt").write_text("hello<pad>")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        assert SCRIPT.main([str(work / "plain.txt"), str(target), "--model", str(work / "padded"), "--token-file"]) == 0
        vocabulary, = struct.unpack_from("<I", target.read_bytes(), 16)
        assert vocabulary <= rows
        assert SCRIPT.main([str(work / "pad.txt"), str(target), "--model", str(work / "padded"), "--token-file"]) == 1
    assert "pad.txt" in said.getvalue(), said.getvalue()
    assert f"outside of the model's vocabulary of {rows}" in said.getvalue(), said.getvalue()


def test_a_run(work, model):
    (work / "chats.jsonl").write_text("".join(json.dumps({"messages": messages(chat)}) + "\n" for chat in CHATS))
    done = optrush("tokenize", "chats.jsonl", "tokens.jsonl", "--model", "model", cwd=work, environment=AS_USERS)
    assert done.returncode == 0, done.stderr
    (work / "tune.lua").write_text("""
local rush = require "optrush"
local exp = rush.experiment {
  name = "tune", model = rush.checkpoint "model", data = rush.documents "tokens.jsonl",
  train = { micro_batch = 3, seq_len = 128, steps = 2, warmup = 0, lr = 1e-3 },
}
exp:ladder { rush.rung("packing", "packing", {}, { train = { micro_batch = 1 } }) }
exp:run { rounds = 1 }
""")
    done = optrush("run", "tune.lua", "--device", "cpu", cwd=work)
    assert done.returncode == 0, done.stdout + done.stderr
    total = count = 0
    for line in (work / "tokens.jsonl").read_text().splitlines():
        line = json.loads(line)
        tokens = torch.tensor([line["tokens"]])
        labels = torch.where(torch.tensor([mask_of(line)]) == 1, tokens, -100)
        learned = int((labels[:, 1:] != -100).sum())
        total += model(tokens, labels=labels).loss.item() * learned
        count += learned
    runs = sorted((work / "reports/tune/local/runs").glob("*/result.json"))
    results = [json.loads(path.read_text()) for path in runs]
    first = [result["steps"][0] for result in results]
    assert len(first) >= 2
    raw_chats(work, first[0]["loss"])
    for step in first:
        assert step["tokens"] == count, (step, count)
        assert abs(step["loss"] - total / count) < 1e-5 * total / count, (step, total / count)


def raw_chats(work, loss):
    """Chats, prompts and texts beside a checkpoint are tokenized automatically, once, from any working folder."""
    (work / "cache").mkdir()
    (work / "raw").mkdir()
    (work / "raw/raw.lua").write_text("""
local rush = require "optrush"
local data, folder = rush.arg("data", ""), rush.arg("checkpoint", "")
local kind = data:match "txt$" and rush.text or data:match "pairs" and rush.preferences or rush.documents
local exp = rush.experiment {
  name = "raw", data = kind(data),
  model = folder == "" and rush.llama("nano", { vocab_size = 512 }) or rush.checkpoint(folder),
  train = {
    micro_batch = kind == rush.documents and 3 or 2, seq_len = kind == rush.text and 8 or 128, steps = 2, warmup = 0,
    lr = 1e-3,
  },
  plugins = kind == rush.preferences and { { "lora", { rank = 2 } }, "dpo" } or {},
}
exp:run { rounds = 1 }
""")
    (work / "pairs.jsonl").write_text(json.dumps({"prompt": "hello", "chosen": "4", "rejected": "no"}) + "\n")
    (work / "long.txt").write_text("hello again, who are you? " * 20)

    def run(data, *more, checkpoint="model", **environment):
        of_checkpoint = [] if checkpoint is None else ["--arg", f"checkpoint={checkpoint}"]
        command = [BUILD / "bin/optrush", "run", "raw/raw.lua", "--device", "cpu", "--arg", f"data={data}",
                   *of_checkpoint, *more]
        return subprocess.run(command, capture_output=True, text=True, cwd=work,
                              env={**os.environ, "OPTRUSH_CACHE": str(work / "cache"), **environment})

    done = run("chats.jsonl")
    assert done.returncode == 0 and "tokenizing" in done.stderr, done.stderr
    place = work if (work / "reports/raw").exists() else work / "raw"
    result = json.loads(next(place.glob("reports/raw/local/runs/00*/result.json")).read_text())
    assert result["steps"][0]["loss"] == loss, (result["steps"][0]["loss"], loss)
    assert len(list((work / "cache/tokens").glob("*.jsonl"))) == 1
    again = run("chats.jsonl")
    assert again.returncode == 0 and "tokenizing" not in again.stderr and "3 lines" in again.stderr, again.stderr
    for data in ("pairs.jsonl", "long.txt"):
        done = run(data)
        assert done.returncode == 0, done.stdout + done.stderr
    # Without a Python the message has the command to run. A model without a checkpoint has no chat template, and text
    # needs the tokenizer of its model.
    (work / "other.jsonl").write_text((work / "chats.jsonl").read_text() + "\n")
    for more in ([], ["--dry-run"]):
        done = run("other.jsonl", *more, OPTRUSH_PYTHON="/usr/bin/false")
        assert done.returncode != 0 and "optrush tokenize " in done.stderr and "--model" in done.stderr, done.stderr
        done = run("chats.jsonl", *more, checkpoint=None)
        assert done.returncode != 0 and "raw.lua:5" in done.stderr and "no tokenizer" in done.stderr, done.stderr
    (work / "bare").mkdir()
    for name in ("config.json", "model.safetensors"):
        (work / "bare" / name).write_bytes((work / "model" / name).read_bytes())
    done = run("long.txt", checkpoint="bare")
    assert done.returncode != 0 and "would be read as bytes" in done.stderr, done.stderr


def test_token_file(work, tokenizer):
    """All tokens of all texts, as the tokenizer makes them. A run on them has the loss of the first windows."""
    def read(path):
        data = path.read_bytes()
        magic, version, size, vocabulary, zero, count = struct.unpack_from("<8sIIIIQ", data)
        tokens = struct.unpack_from(f"<{count}H", data, 32)
        assert (magic, version, size, vocabulary, zero) == (b"ORTOKENS", 1, 2, max(tokens) + 1, 0)
        assert len(data) == 32 + 2 * count
        return list(tokens)

    def made(source, *options):
        """Runs the script of the command in this process and in the same folder."""
        out, err = io.StringIO(), io.StringIO()
        here = os.getcwd()
        os.chdir(work)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = SCRIPT.main([source, "tokens.bin", "--model", "model", *options])
        finally:
            os.chdir(here)
        return subprocess.CompletedProcess(source, code, out.getvalue(), err.getvalue())

    texts = ["hello", "ünïcödé ☃?", "What is 2 + 2?\n"]
    end = tokenizer.eos_token_id
    wanted = [token for text in texts for token in [*tokenizer(text)["input_ids"], end]]
    (work / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    done = optrush("tokenize", "texts.jsonl", "tokens.bin", "--model", "model", "--token-file", cwd=work)
    assert done.returncode == 0 and f"3 texts, {len(wanted)} tokens" in done.stdout, done
    assert "rush.tokens" in done.stdout, done
    assert read(work / "tokens.bin") == wanted

    folder = work / "texts"
    (folder / "deeper").mkdir(parents=True)
    for name, text in zip(("a.txt", "b.md", "deeper/c"), texts):
        (folder / name).write_text(text)
    assert made("texts", "--token-file").returncode == 0 and read(work / "tokens.bin") == wanted
    assert made("texts/b.md", "--token-file").returncode == 0
    assert read(work / "tokens.bin") == [*tokenizer(texts[1])["input_ids"], end]

    # The bytes of a file are tokenized: line ends stay, and a byte order mark is removed.
    (work / "windows.txt").write_bytes(b"\xef\xbb\xbfhello\r\nagain\r\n")
    assert made("windows.txt", "--token-file").returncode == 0
    assert read(work / "tokens.bin") == [*tokenizer("hello\r\nagain\r\n")["input_ids"], end]

    text = "hello again\n\n  who\n" * 300
    (work / "long.txt").write_text(text)
    assert made("long.txt", "--token-file").returncode == 0
    assert read(work / "tokens.bin") == [*tokenizer(text)["input_ids"], end]
    (work / "train.lua").write_text("""
local rush = require "optrush"
local exp = rush.experiment {
  name = "train", model = rush.checkpoint "model", data = rush.tokens "tokens.bin",
  train = { micro_batch = 2, seq_len = 32, steps = 2, warmup = 0 },
}
exp:run { rounds = 1 }
""")
    done = optrush("run", "train.lua", "--device", "cpu", cwd=work)
    assert done.returncode == 0, done.stdout + done.stderr

    before = (work / "tokens.bin").read_bytes()
    (work / "chat.jsonl").write_text('{"text": "hello"}\n{"messages": []}\n')
    (work / "none.txt").write_text("")
    (work / "latin.txt").write_bytes(b"gr\xfcn")
    (work / "wide.txt").write_bytes("hello".encode("utf-16"))
    for source, options, what in (("chat.jsonl", ["--token-file"], "chat.jsonl:2"),
                                  ("none.txt", ["--token-file"], "has no text"),
                                  ("latin.txt", ["--token-file"], "is not UTF-8"),
                                  ("wide.txt", ["--token-file"], "is UTF-16")):
        done = made(source, *options)
        assert done.returncode != 0 and what in done.stderr, (source, done.stderr)
    done = optrush("tokenize", "nowhere", "tokens.bin", "--model", "model", "--token-file", cwd=work)
    assert done.returncode != 0 and "nowhere" in done.stderr, done.stderr
    assert (work / "tokens.bin").read_bytes() == before and not list(work.glob(".tokens-*"))


def test_an_end_while_it_tokenizes(work):
    """A run that is stopped or killed while its data are tokenized leaves no process and no partial file."""
    with (work / "long.txt").open("w") as file:
        for number in range(200_000):
            file.write(f"line {number} of a long text\n")
    (work / "long.lua").write_text("""
local rush = require "optrush"
local exp = rush.experiment { name = "long", model = rush.checkpoint "model", data = rush.text "long.txt" }
exp:run { rounds = 1 }
""")
    cache = work / "cache_of_the_interrupted"
    for number in (signal.SIGTERM, signal.SIGKILL):
        run = subprocess.Popen([BUILD / "bin/optrush", "run", "long.lua", "--device", "cpu"], cwd=work,
                               stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               env={**AS_USERS, "OPTRUSH_CACHE": str(cache)})
        parts = lambda: list((cache / "tokens").glob(".tokens-*"))
        while not parts() and run.poll() is None:
            time.sleep(0.02)
        assert run.poll() is None, "it was too fast to be interrupted"
        run.send_signal(number)
        assert run.wait() == -number
        ends = time.monotonic() + 60
        while parts() and time.monotonic() < ends:
            time.sleep(0.05)
        assert not list((cache / "tokens").iterdir()), list((cache / "tokens").iterdir())


with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    tokens, llama = save_model(place / "model")
    tokenize_lines.test_chats(place, tokens)
    tokenize_lines.test_line_ends(place)
    tokenize_lines.test_control_tokens(place)
    tokenize_lines.test_texts(place, tokens)
    tokenize_lines.test_preferences(place, tokens)
    tokenize_lines.test_refusals(place)
    tokenize_lines.test_nothing_is_lost(place)
    tokenize_lines.test_fields_of_lines(place)
    tokenize_lines.test_other_forms(place)
    test_long_texts(tokens)
    test_vocabularies(place)
    test_a_run(place, llama)
    test_token_file(place, tokens)
    test_an_end_while_it_tokenizes(place)
