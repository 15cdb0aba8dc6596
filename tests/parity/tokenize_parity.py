"""`optrush tokenize`: tokens and what is learned from are those that transformers says of the same chats, and a run on them has
the loss that transformers computes."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
TEMPLATE = """{{ bos_token }}{% for m in messages %}<|head|>{{ m.role }}<|/head|>
{% if m.role == 'assistant' %}{% generation %}{{ KEPT }}<|eot|>{% endgeneration %}{% else %}{{ m.content }}<|eot|>{% endif %}{% endfor %}\
{% if add_generation_prompt %}<|head|>assistant<|/head|>
{% endif %}"""
CHATS = [
    [("user", "What is 2 + 2?"), ("assistant", "4")],
    [("system", "Be brief."), ("user", "hello"), ("assistant", "Hello!"), ("user", "Who are you?"), ("assistant", "\nA model.\n")],
    [("user", "ünïcödé ☃?"), ("assistant", "☃ ☃"), ("user", "again"), ("assistant", "☃"), ("user", "and?"), ("assistant", "no")],
]


def messages(chat):
    return [{"role": role, "content": content} for role, content in chat]


# As ChatML, a line ends behind the token that ends a turn; and one that shows the system's text beside the last message alone.
WITH_LINES = TEMPLATE.replace("{% endgeneration %}", "{% endgeneration %}\n").replace("KEPT", "m.content")
SYSTEM_LAST = """{% set said = messages[0].content + ' ' if messages[0].role == 'system' else '' %}{% for m in messages %}\
{% if m.role == 'user' %}<|head|>{{ said if loop.last or loop.nextitem is not defined else '' }}{{ m.content }}<|/head|>\
{% elif m.role == 'assistant' %}{{ m.content }}<|eot|>{% endif %}{% endfor %}"""


def save_model(folder, kept="m.content", template=TEMPLATE):
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    words = [content for chat in CHATS for _, content in chat] * 3 + ["user assistant system"]
    bpe.train_from_iterator(words, trainers.BpeTrainer(vocab_size=320, special_tokens=["<|bos|>", "<|eot|>", "<|head|>", "<|/head|>"],
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<|bos|>", eos_token="<|eot|>")
    tokenizer.chat_template = template.replace("KEPT", kept) if template else None
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2)
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return tokenizer, model


def optrush(*arguments, cwd):
    return subprocess.run([BUILD / "bin/optrush", *map(str, arguments)], capture_output=True, text=True, cwd=cwd)


def script():
    sys.path.insert(0, str(SOURCE / "scripts"))  # where Python looks first when it starts the script
    spec = importlib.util.spec_from_file_location("tokenize_documents", SOURCE / "scripts/tokenize_documents.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = script()


def tokenized(work, lines, *options, model="model"):
    """What `optrush tokenize` starts, in this process: importing transformers takes seconds."""
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


def test_chats(work, tokenizer):
    made, said = tokenized(work, [{"messages": messages(chat), "id": 1} for chat in CHATS])
    learned = 0
    for chat, line in zip(CHATS, made):
        truth = tokenizer.apply_chat_template(messages(chat), tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        assert line["tokens"] == truth["input_ids"], chat
        assert mask_of(line) == truth["assistant_masks"], (chat, line["trained"], truth["assistant_masks"])
        assert len(line["trained"]) == sum(role == "assistant" for role, _ in chat)
        learned += sum(truth["assistant_masks"])
    assert f"3 lines, {sum(len(line['tokens']) for line in made):,} tokens, a loss is taken on {learned:,}" in said, said
    assert "rush.documents" in said
    last, _ = tokenized(work, [{"messages": messages(chat)} for chat in CHATS], "--turns", "last")
    for every, one in zip(made, last):
        assert one == {"tokens": every["tokens"], "trained": every["trained"][-1:]}


def test_line_ends(work):
    tokenizer, _ = save_model(work / "lines", template=WITH_LINES)
    made, _ = tokenized(work, [{"messages": messages(chat)} for chat in CHATS], model="lines")
    for chat, line in zip(CHATS, made):
        truth = tokenizer.apply_chat_template(messages(chat), tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        assert line["tokens"] == truth["input_ids"] and mask_of(line) == truth["assistant_masks"], chat
    # A conversation may begin with the assistant, whose greeting answers nothing.
    made, _ = tokenized(work, [{"messages": messages([("assistant", "Hello!"), *CHATS[0]])}], model="lines")
    (begin, end), = made[0]["trained"]
    assert tokenizer.decode(made[0]["tokens"][begin:end]) == "4<|eot|>"


def test_texts(work, tokenizer):
    made, _ = tokenized(work, [{"text": "hello"}, {"prompt": "What is ", "completion": "4?"},
                               {"prompt": messages(CHATS[1][:4]), "completion": messages(CHATS[1][4:])}])
    ids = tokenizer("hello")["input_ids"]
    assert made[0] == {"tokens": [*ids, tokenizer.eos_token_id]}
    assert tokenizer.decode(made[1]["tokens"]) == "What is 4?<|eot|>"
    assert tokenizer.decode(made[1]["tokens"][made[1]["prompt_tokens"]:]) in ("4?<|eot|>", " 4?<|eot|>")
    assert tokenizer.decode(made[2]["tokens"]) == tokenizer.apply_chat_template(messages(CHATS[1]), tokenize=False)
    (begin, end), = made[2]["trained"]
    assert tokenizer.decode(made[2]["tokens"][begin:end]).strip() == "A model.\n<|eot|>"


def test_preferences(work, tokenizer):
    asked, good, bad = CHATS[0][:1], [("assistant", "4")], [("assistant", "5, I think")]
    made, said = tokenized(work, [
        {"prompt": messages(asked), "chosen": messages(good), "rejected": messages(bad)},
        {"chosen": messages(asked + good), "rejected": messages(asked + bad)},  # the prompt is what both begin with
        {"prompt": "What is 2 + 2? ", "chosen": "4", "rejected": "no"}])
    assert "rush.preferences" in said
    assert made[0] == made[1]
    prompt = tokenizer.apply_chat_template(messages(asked), tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(made[0]["prompt"]) == prompt
    assert tokenizer.decode(made[0]["rejected"]) == "5, I think<|eot|>"
    assert tokenizer.decode(made[2]["prompt"] + made[2]["chosen"]) == "What is 2 + 2? 4<|eot|>"
    assert made[2]["chosen"] != made[2]["rejected"]


def test_refusals(work):
    def refused(lines, *said, model="model", options=()):
        made, output = tokenized(work, lines, *options, model=model)
        assert made is None and "hint: " in output, output
        for part in said:
            assert part in output, (part, output)

    refused(["{"], "in.jsonl:1", "Expecting")
    refused([{"text": "a"}, {"messages": []}], "in.jsonl:2", "'messages'")
    refused([{"messages": messages(CHATS[0][:1])}], "no answer of the assistant")
    refused([{"text": "a"}, {"prompt": "a", "chosen": "b", "rejected": "c"}], "documents and pairs")
    refused([{"prompt": "a", "chosen": "b"}], "three texts")
    refused([{"prompt": "a", "chosen": "b", "rejected": "b"}], "are the same")
    refused([{"prompt": "a", "completion": ""}], "'completion' is empty")
    refused(['{"text": "half \\ud83d"}'], "in.jsonl:1", "half of a character")
    hello, more = [("user", "hello"), ("assistant", "Hello!")], [("user", "again"), ("assistant", "no")]
    for pair in ({"prompt": messages(hello[:1]), "chosen": messages(hello[1:] + more), "rejected": messages(hello[1:])},
                 {"chosen": messages(hello + more), "rejected": messages(hello + [("user", "Who are you?"), ("assistant", "4")])}):
        refused([pair], "the assistant does not write")
    refused([{"prompt": "a", "chosen": "b", "rejected": ["c"]}], "three texts")
    refused([{"completion": "a"}], "nothing to learn from")
    refused([], "has no lines")
    refused([{"text": "a"}], "no tokenizer", model="nowhere")
    # A template that takes earlier answers out of the conversation.
    chats = [{"messages": messages(CHATS[1])}]
    save_model(work / "forgetful", kept="m.content if loop.last else ''")
    refused(chats, "in.jsonl:1", "turn 3 otherwise", "--turns last", model="forgetful")
    made, _ = tokenized(work, chats, "--turns", "last", model="forgetful")
    assert len(made[0]["trained"]) == 1
    # A template that writes what was before an answer otherwise once it follows: no span is the answer alone.
    save_model(work / "system", template=SYSTEM_LAST)
    asked, answer = CHATS[1][:2], [("assistant", "4")]
    chat = {"messages": messages(asked + answer)}
    pair = {"prompt": messages(asked), "chosen": messages(answer), "rejected": messages([("assistant", "no")])}
    for line in (chat, pair):
        for turns in ("all", "last"):
            refused([line], "the messages before 3 otherwise", model="system", options=("--turns", turns))
    save_model(work / "base", template="")
    refused([chat], "no chat template", "prompt and completion as text", model="base")
    tokenized(work, [{"text": "a"}])
    for command, what, code in ((["in.jsonl", "out.jsonl"], "--model", 2), (["in.jsonl", "out.jsonl", "--model", "nowhere"], "nowhere", 2),
                                (["nowhere", "out.jsonl", "--model", "model"], "nowhere", 2),
                                (["in.jsonl", "./in.jsonl", "--model", "model"], "is what is read", 1)):
        done = optrush("tokenize", *command, cwd=work)
        assert done.returncode == code and what in done.stderr, (command, done.returncode, done.stderr)
    assert json.loads((work / "in.jsonl").read_text()) == {"text": "a"}


def test_a_run(work, model):
    (work / "chats.jsonl").write_text("".join(json.dumps({"messages": messages(chat)}) + "\n" for chat in CHATS))
    done = optrush("tokenize", "chats.jsonl", "tokens.jsonl", "--model", "model", cwd=work)
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
    results = [json.loads(path.read_text()) for path in sorted((work / "reports/tune/local/runs").glob("*/result.json"))]
    first = [result["steps"][0] for result in results]
    assert len(first) >= 2
    for step in first:
        assert step["tokens"] == count, (step, count)
        assert abs(step["loss"] - total / count) < 1e-5 * total / count, (step, total / count)


def test_token_file(work, tokenizer):
    """All tokens of all texts, as the tokenizer makes them, and a run on them has the loss of the first windows."""
    def read(path):
        data = path.read_bytes()
        magic, version, size, vocabulary, zero, count = struct.unpack_from("<8sIIIIQ", data)
        assert (magic, version, size, vocabulary, zero) == (b"ORTOKENS", 1, 2, len(tokenizer), 0)
        tokens = struct.unpack_from(f"<{count}H", data, 32)
        assert len(data) == 32 + 2 * count
        return list(tokens)

    def made(source, *options):
        return optrush("tokenize", source, "tokens.bin", "--model", "model", *options, cwd=work)

    texts = ["hello", "ünïcödé ☃?", "What is 2 + 2?\n"]
    end = tokenizer.eos_token_id
    wanted = [token for text in texts for token in [*tokenizer(text)["input_ids"], end]]
    (work / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    done = made("texts.jsonl", "--token-file")
    assert done.returncode == 0 and f"3 texts, {len(wanted)} tokens" in done.stdout and "rush.tokens" in done.stdout, done
    assert read(work / "tokens.bin") == wanted

    folder = work / "texts"
    (folder / "deeper").mkdir(parents=True)
    for name, text in zip(("a.txt", "b.md", "deeper/c"), texts):
        (folder / name).write_text(text)
    assert made("texts", "--token-file").returncode == 0 and read(work / "tokens.bin") == wanted
    assert made("texts/b.md", "--token-file").returncode == 0
    assert read(work / "tokens.bin") == [*tokenizer(texts[1])["input_ids"], end]

    # A long text is cut behind lines, and nothing shows of it.
    text, part = "hello again\n\n  who\n" * 300, SCRIPT.token_file.PART
    SCRIPT.token_file.PART = 100
    assert len(list(SCRIPT.token_file.parts_of(text))) > 30 and "".join(SCRIPT.token_file.parts_of(text)) == text
    (work / "long.txt").write_text(text)
    SCRIPT.token_file.write(str(work / "long.txt"), str(work / "tokens.bin"), tokenizer, SCRIPT.Refused)
    SCRIPT.token_file.PART = part
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
    for source, options, what in (("chat.jsonl", ["--token-file"], "chat.jsonl:2"), ("none.txt", ["--token-file"], "has no text"),
                                  ("latin.txt", ["--token-file"], "is not UTF-8"), ("texts", [], "--token-file makes one"),
                                  ("nowhere", ["--token-file"], "nowhere")):
        done = made(source, *options)
        assert done.returncode != 0 and what in done.stderr, (source, done.stderr)
    assert (work / "tokens.bin").read_bytes() == before and not list(work.glob(".tokens-*"))


with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    tokens, llama = save_model(place / "model")
    test_chats(place, tokens)
    test_line_ends(place)
    test_texts(place, tokens)
    test_preferences(place, tokens)
    test_refusals(place)
    test_a_run(place, llama)
    test_token_file(place, tokens)
