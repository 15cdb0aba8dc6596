"""`optrush tokenize`: tokens and what is learned from are those that transformers says of the same chats, and a run on them has
the loss that transformers computes."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
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


# OPTRUSH_PYTHON names a Python that has imported transformers. A user's start does not have it.
AS_USERS = {name: value for name, value in os.environ.items() if name != "OPTRUSH_PYTHON"}


def optrush(*arguments, cwd, environment=None):
    return subprocess.run([BUILD / "bin/optrush", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, env=environment)


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
    assert f"3 lines, {sum(len(line['tokens']) for line in made):,} tokens, {learned:,} of them trained" in said, said
    assert "rush.documents" in said
    last, _ = tokenized(work, [{"messages": messages(chat)} for chat in CHATS], "--turns", "last")
    for every, one in zip(made, last):
        assert one == {"tokens": every["tokens"], "trained": every["trained"][-1:]}
    each, _ = tokenized(work, [{"messages": messages(CHATS[2])}], "--turns", "each")
    for number, (line, (begin, end)) in enumerate(zip(each, made[2]["trained"], strict=True), 1):
        assert line["trained"] == [[begin, end]] and line["tokens"] == made[2]["tokens"][:len(line["tokens"])]
        assert tokenizer.decode(line["tokens"]) == tokenizer.apply_chat_template(messages(CHATS[2])[:2 * number], tokenize=False)


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

    refused(["{"], "in.jsonl:1", "ends inside of the object")
    refused(['{"text": "a"}', '{"text": "a" "b": 1}'], "in.jsonl:2", "column 14", "',' or a closing bracket is missing")
    refused(["{'text': 'a'}"], "in.jsonl:1", "a name in double quotes is missing")
    refused(['{"text": "a"} {"text": "b"}'], "in.jsonl:1", "text follows the object")
    refused(['{"text": "a", "text": "b"}'], "in.jsonl:1", "'text' occurs twice")
    refused(['{"text": ' + "[" * 100000], "in.jsonl:1", "nested too deeply")
    refused(['{"id": ' + "1" * 5000 + ', "text": "a"}'], "in.jsonl:1", "cannot be read")
    refused(["[1]"], "in.jsonl:1", "a line is a JSON object")
    refused(['[{"text": "a"}', '{"text": "b"}]'], "in.jsonl", "line 2", "',' is missing")
    refused([{"text": ""}], "'text' is empty")
    refused([{"question": "a", "answer": "b"}], "'question', 'answer'")
    refused([{"prompt": "a", "completion": "b", "label": False}], "lines with 'label'")
    refused([{"text": "a"}, {"messages": []}], "in.jsonl:2", "'messages'")
    refused([{"messages": messages(CHATS[0][:1])}], "no assistant answer")
    refused([{"text": "a"}, {"prompt": "a", "chosen": "b", "rejected": "c"}], "documents and pairs")
    refused([{"prompt": "a", "chosen": "b"}], "three texts")
    refused([{"prompt": "a", "chosen": "b", "rejected": "b"}], "are equal")
    refused([{"prompt": "a", "completion": ""}], "'completion' is empty")
    refused(['{"text": "half \\ud83d"}'], "in.jsonl:1", "half of a character")
    hello, more = [("user", "hello"), ("assistant", "Hello!")], [("user", "again"), ("assistant", "no")]
    for pair in ({"prompt": messages(hello[:1]), "chosen": messages(hello[1:] + more), "rejected": messages(hello[1:])},
                 {"chosen": messages(hello + more), "rejected": messages(hello + [("user", "Who are you?"), ("assistant", "4")])}):
        refused([pair], "not from the assistant")
    refused([{"prompt": "a", "chosen": "b", "rejected": ["c"]}], "three texts")
    refused([{"completion": "a"}], "no known form", "'completion'")
    say = messages(CHATS[0])
    for changed, what in (({"role": "bot"}, "unknown role: 'bot'"), ({"content": ""}, "an answer without text"), ({"content": None}, "has no content"),
                          ({"content": 7}, "not text: 7"), ({"content": [{"type": "image_url"}]}, "not text (image_url)"),
                          ({"weight": 0.5}, "weight: 0.5"), ({"train": 0}, "train: 0")):
        refused([{"messages": [say[0], say[1] | changed]}], "in.jsonl:1: message 2", what)
    refused([], "has no lines")
    refused([{"text": "a"}], "no tokenizer", model="nowhere")
    # A template that takes earlier answers out of the conversation.
    chats = [{"messages": messages(CHATS[1])}]
    save_model(work / "forgetful", kept="m.content if loop.last else ''")
    refused(chats, "in.jsonl:1", "texts of trained answers", "'Hello!'", "--turns last", model="forgetful")
    save_model(work / "lower", kept="m.content if loop.last else '.' ~ m.content")
    refused(chats, "in.jsonl:1", "changes turn 3", "--turns last", model="lower")
    made, _ = tokenized(work, chats, "--turns", "each", model="lower")
    assert [len(line["trained"]) for line in made] == [1, 1]
    made, _ = tokenized(work, chats, "--turns", "last", model="forgetful")
    assert len(made[0]["trained"]) == 1
    # A template that writes what was before an answer otherwise once it follows: no span is the answer alone.
    save_model(work / "system", template=SYSTEM_LAST)
    asked, answer = CHATS[1][:2], [("assistant", "4")]
    chat = {"messages": messages(asked + answer)}
    pair = {"prompt": messages(asked), "chosen": messages(answer), "rejected": messages([("assistant", "no")])}
    for line in (chat, pair):
        for turns in ("all", "last"):
            refused([line], "messages of the system: 1 line", "--allow-lost", model="system", options=("--turns", turns))
            refused([line], "before message 3", model="system", options=("--turns", turns, "--allow-lost"))
    save_model(work / "base", template="")
    refused([chat], "no chat template", "prompt and completion as text", model="base")
    tokenized(work, [{"text": "a"}])
    for command, what, code in ((["in.jsonl", "out.jsonl"], "--model", 2), (["in.jsonl", "out.jsonl", "--model", "nowhere"], "nowhere", 2),
                                (["nowhere", "out.jsonl", "--model", "model"], "nowhere", 2),
                                (["in.jsonl", "./in.jsonl", "--model", "model"], "is the input file", 1)):
        done = optrush("tokenize", *command, cwd=work)
        assert done.returncode == code and what in done.stderr, (command, done.returncode, done.stderr)
    assert json.loads((work / "in.jsonl").read_text()) == {"text": "a"}


def decoded(tokenizer, line):
    return [tokenizer.decode(line["tokens"][begin:end]) for begin, end in line["trained"]]


# Templates that lose something: what was thought (as DeepSeek-R1-Distill), what the system says, every call of a tool; and one that takes
# contents as lists of parts and calls with arguments as text.
PLAIN = "{{ bos_token }}{% for m in messages %}<|head|>{{ m.role }}<|/head|>{{ m.content }}<|eot|>{% endfor %}\
{% if add_generation_prompt %}<|head|>assistant<|/head|>{% endif %}"
THOUGHTLESS = PLAIN.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")
NO_SYSTEM = PLAIN.replace("<|head|>{{ m.role }}", "{% if m.role == 'system' %}{% continue %}{% endif %}<|head|>{{ m.role }}")
IN_PARTS = PLAIN.replace("{{ m.content }}", "{% for part in m.content %}{{ part.text }}{% endfor %}")
CALLS = PLAIN.replace("{{ m.content }}", "{{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}") \
    .replace("{{ bos_token }}", "{{ bos_token }}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}")
DATED = PLAIN.replace("{{ bos_token }}", "{{ bos_token }}{{ strftime_now('%d %b %Y') }}")
SWITCHED = PLAIN.replace("{{ bos_token }}", "{{ bos_token }}{% if quick is defined and quick %}again{% endif %}")
CALL = [{"type": "function", "function": {"name": "weather", "arguments": '{"place": "Köln", "days": 3}'}}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "of a place", "parameters": {}}}]


def test_nothing_is_lost(work):
    """What messages say is in the tokens, or the file is refused with what is missing, how often and where first."""
    tokenizers = {}
    for name, template in (("plain", PLAIN), ("thoughtless", THOUGHTLESS), ("no_system", NO_SYSTEM), ("parts", IN_PARTS), ("calls", CALLS),
                           ("dated", DATED), ("switched", SWITCHED)):
        tokenizers[name], _ = save_model(work / name, template=template)

    def made(model, line, *options):
        lines, said = tokenized(work, [line] if isinstance(line, dict) else line, *options, model=model)
        assert lines is not None, said
        return lines, said

    def refused(model, lines, *said, options=()):
        done, output = tokenized(work, [lines] if isinstance(lines, dict) else lines, *options, model=model)
        assert done is None, done
        for part in said:
            assert part in output, (part, output)

    asked = {"role": "user", "content": "hello"}
    thought = {"role": "assistant", "content": "<think>two and two</think>4"}
    apart = {"role": "assistant", "content": "4", "reasoning_content": "two and two"}
    answer = {"role": "assistant", "content": "4"}
    refused("thoughtless", [{"messages": [asked, answer]}, {"messages": [asked, thought]}, {"prompt": [asked], "completion": [thought]}],
            "thoughts of trained answers: 2 lines, first", "in.jsonl:2: 'two and two'", "--chat-template")
    refused("thoughtless", {"prompt": [asked], "chosen": [thought], "rejected": [answer]}, "thoughts of trained answers")
    refused("plain", {"messages": [asked, apart]}, "thoughts of trained answers")
    lines, said = made("thoughtless", {"messages": [asked, thought, asked, answer]}, "--turns", "last")
    assert "thoughts of earlier answers" in said and decoded(tokenizers["thoughtless"], lines[0]) == ["4<|eot|>"], said
    (work / "plain.jinja").write_text(PLAIN)
    lines, _ = made("thoughtless", {"messages": [asked, thought]}, "--chat-template", str(work / "plain.jinja"))
    assert decoded(tokenizers["thoughtless"], lines[0]) == ["<think>two and two</think>4<|eot|>"]

    system = {"role": "system", "content": "4"}  # as short as the answer, which has it, too
    refused("no_system", {"messages": [system, asked, answer]}, "messages of the system: 1 line", "--allow-lost")
    _, said = made("no_system", {"messages": [system, asked, answer]}, "--allow-lost")
    assert "messages of the system: 1 line" in said
    made("plain", {"messages": [system, asked, answer]})

    parts = {"messages": [asked, {"role": "assistant", "content": [{"type": "text", "text": "Hello!"}]}]}
    for model in ("plain", "parts"):
        lines, said = made(model, parts)
        assert decoded(tokenizers[model], lines[0]) == ["Hello!<|eot|>"], lines
        assert "content is a list of parts: 1" in said

    calling = {"role": "assistant", "content": None, "tool_calls": CALL}
    refused("plain", {"messages": [asked, calling]}, "tool calls of trained answers")
    refused("plain", {"messages": [asked, answer], "tools": TOOLS}, "tool definitions: 1 line", "'weather'")
    lines, _ = made("calls", {"messages": [asked, calling, {"role": "tool", "content": "3"}, answer], "tools": TOOLS})
    call = '[weather {"place": "Köln", "days": 3}]<|eot|>'
    assert decoded(tokenizers["calls"], lines[0]) == [call, "4<|eot|>"], decoded(tokenizers["calls"], lines[0])
    assert "of a place" in tokenizers["calls"].decode(lines[0]["tokens"])

    lines, said = made("dated", {"messages": [asked, answer]}, "--date", "2024-07-26")
    assert "26 Jul 2024" in tokenizers["dated"].decode(lines[0]["tokens"]) and "today's date" not in said
    _, said = made("dated", {"messages": [asked, answer]})
    assert "today's date" in said and "in.jsonl:1" in said
    lines, _ = made("switched", {"messages": [asked, answer]}, "--template-arg", "quick=true")
    (by_line,), _ = made("switched", {"messages": [asked, answer], "chat_template_kwargs": {"quick": True}})
    assert lines[0] == by_line and "again" in tokenizers["switched"].decode(by_line["tokens"])

    weighed = [asked, {**answer, "weight": 0}, asked, {**answer, "content": "again", "weight": 1}]
    lines, said = made("plain", {"messages": weighed})
    assert decoded(tokenizers["plain"], lines[0]) == ["again<|eot|>"] and "weight 0" in said
    lines, said = made("plain", [{"messages": [asked, {**answer, "train": False}]}, {"messages": [asked, answer]}])
    assert len(lines) == 1 and "all of their answers have weight 0: 1" in said
    _, said = made("plain", {"messages": [asked, {**answer, "content": "<|eot|>4"}, asked]})
    assert "special tokens" in said and "end without an answer" in said


def test_fields_of_lines(work):
    """Every field that says something is in the tokens, refused, or named in a note; after test_nothing_is_lost()."""
    asked, answer, other = {"role": "user", "content": "hello"}, {"role": "assistant", "content": "4"}, {"role": "assistant", "content": "no"}
    system = {"role": "system", "content": "Be brief."}

    def same(line, wanted, model="plain", *notes):
        made, said = tokenized(work, [line], model=model)
        right, _ = tokenized(work, [wanted], model=model)
        assert made == right and made is not None and all(note in said for note in notes), (made, right, said)
        return said

    def refused(line, *said, model="plain"):
        made, output = tokenized(work, [line], model=model)
        assert made is None and "hint: " in output and all(part in output for part in said), (made, output)

    whole = {"messages": [system, asked, answer]}
    for line in ({"system": "Be brief.", "messages": [asked, answer]}, {"system": "Be brief.", **whole},
                 {"system": "Be brief.", "prompt": [asked], "completion": [answer]}, {"system": "Be brief.", "instruction": "hello", "output": "4"}):
        same(line, whole)
    pair = {"prompt": [system, asked], "chosen": [answer], "rejected": [other]}
    for line in ({"system": "Be brief.", "prompt": [asked], "chosen": [answer], "rejected": [other]},
                 {"system": "Be brief.", "prompt": "hello", "chosen": [answer], "rejected": [other]},
                 {"system": "Be brief.", "chosen": [asked, answer], "rejected": [asked, other]}):
        same(line, pair)
    refused({"system": "Be long.", **whole}, "'system'", "another text")
    refused({"system": ["Be brief."], "messages": [asked, answer]}, "'system' must be a text")
    for texts in ({"prompt": "hello", "completion": "4"}, {"prompt": "hello", "chosen": "4", "rejected": "no"}):
        refused({"system": "Be brief.", **texts}, "'system' beside texts", "write messages")
        refused({"tools": TOOLS, **texts}, "'tools' beside texts")

    # One call as OpenAI wrote it before there were several.
    function = {"name": "weather", "arguments": '{"place": "Köln", "days": 3}'}
    for call in (function, json.dumps(function)):
        line = {"messages": [asked, {"role": "assistant", "content": None, "function_call": call}, {"role": "function", "name": "weather", "content": "3"}, answer],
                "functions": [TOOLS[0]["function"]]}
        wanted = {"messages": [asked, {"role": "assistant", "content": None, "tool_calls": CALL}, *line["messages"][2:]], "tools": TOOLS}
        same(line, wanted, "calls")
    refused(line, "tool calls of trained answers")
    refused({"messages": [asked, {**answer, "function_call": function, "tool_calls": CALL}]}, "message 2", "both", model="calls")
    refused({"messages": [asked, {**answer, "function_call": {"place": 3}}]}, "message 2", "function call", model="calls")
    refused({"messages": [asked, answer], "tools": TOOLS, "functions": TOOLS}, "'tools' and 'functions'", model="calls")

    said = same({**whole, "system_prompt": "Be long.", "id": 3, "empty": None}, whole, "plain", "the field 'system_prompt', which is not read: 1, first")
    assert "'empty'" not in said and "'messages'" not in said
    same({"text": "hello", "tools": TOOLS}, {"text": "hello"}, "plain", "the field 'tools', which is not read")
    same({"tokens": [5, 6, 7], "labels": [-100, 6, 7]}, {"tokens": [5, 6, 7]}, "plain", "the field 'labels', which is not read")
    same({"messages": [asked, {**answer, "refusal": "I will not", "name": "bot"}]}, {"messages": [asked, answer]}, "plain",
         "messages have the field 'refusal', which the chat template does not write: 1")


def test_other_forms(work):
    """ShareGPT, Alpaca, lines of transformers' trainers, arrays, byte order marks and line ends of Windows."""
    wanted, _ = tokenized(work, [{"messages": messages(CHATS[1])}], model="plain")
    shared = [{"from": {"user": "human", "assistant": "gpt"}.get(role, role), "value": content} for role, content in CHATS[1]]
    for line in ({"conversations": shared}, {"system": CHATS[1][0][1], "conversations": shared[1:]}, {"messages": shared}):
        made, said = tokenized(work, [line], model="plain")
        assert made == wanted and "'from' and 'value'" in said, said
    alpaca, said = tokenized(work, [{"instruction": "hello", "input": "", "output": "Hello!"}, {"instruction": "hello", "input": "again", "output": "no"}],
                             model="plain")
    asking, _ = tokenized(work, [{"messages": messages([("user", "hello"), ("assistant", "Hello!")])},
                                 {"messages": messages([("user", "hello\n\nagain"), ("assistant", "no")])}], model="plain")
    assert alpaca == asking and "'instruction' and 'output'" in said, said
    made, _ = tokenized(work, [{"input_ids": [0, 5, 6, 7, 8, 1], "labels": [-100, -100, 6, 7, -100, -100], "attention_mask": [0, 1, 1, 1, 1, 0]},
                               {"tokens": [5, 6, 7], "prompt_tokens": 1}])
    assert made == [{"tokens": [5, 6, 7, 8], "trained": [[1, 3]]}, {"tokens": [5, 6, 7], "prompt_tokens": 1}]
    made, said = tokenized(work, [{"input_ids": [5, 6], "labels": [6, 6]}])
    assert made is None and "differs from 'input_ids'" in said
    wanted, _ = tokenized(work, [{"text": "hello"}, {"text": "again"}])
    for text in ('[{"text": "hello"},\n {"text": "again"}]', '\ufeff{"text": "hello"}\r\n\r\n{"text": "again"}\r\n'):
        made, _ = tokenized(work, [text])
        assert made == wanted
    chosen = {"prompt": "hello", "chosen": messages([("user", "hello"), ("assistant", "4")]), "rejected": messages([("user", "hello"), ("assistant", "no")])}
    made, said = tokenized(work, [chosen], model="plain")
    same, _ = tokenized(work, [{"prompt": chosen["chosen"][:1], "chosen": chosen["chosen"][1:], "rejected": chosen["rejected"][1:]}], model="plain")
    assert made == same, said
    made, said = tokenized(work, [{"prompt": messages([("user", "hello")]), "chosen": messages([("assistant", "<think>a</think>4")]),
                                   "rejected": messages([("assistant", "<think>b</think>4")])}], "--allow-lost", model="thoughtless")
    assert made is None and "thoughts of trained answers" in said, said
    (work / "folder").mkdir(exist_ok=True)
    for name, text in (("a.txt", "hello again"), ("b.txt", "hello Who"), ("c.md", "Who are you?")):
        (work / "folder" / name).write_text(text)
    target = work / "out.jsonl"
    wanted, _ = tokenized(work, [{"text": "hello again"}, {"text": "hello Who"}])
    with contextlib.redirect_stdout(io.StringIO()):
        assert SCRIPT.main([str(work / "folder"), str(target), "--model", str(work / "model"), "--extension", ".txt"]) == 0
        assert [json.loads(line) for line in target.read_text().splitlines()] == wanted
        assert SCRIPT.main([str(work / "folder"), str(target), "--model", str(work / "model"), "--pairs-of-texts", "8"]) == 0
    assert len(target.read_text().splitlines()) == 3


def as_llama2():
    """A space before a text, no pre-tokenizer, bytes of what is unknown, a begin of its own."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bpe.train_from_iterator([content for chat in CHATS for _, content in chat] * 3, trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]))
    bpe.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def as_unigram():
    unigram = Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.train_from_iterator([content for chat in CHATS for _, content in chat] * 3,
                                trainers.UnigramTrainer(vocab_size=60, special_tokens=["<unk>", "</s>"], unk_token="<unk>"))
    return PreTrainedTokenizerFast(tokenizer_object=unigram, eos_token="</s>", unk_token="<unk>")


def with_end(tokenizer):
    """The tokenizer itself puts an end behind each text."""
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def padded(tokenizer):
    """As a tokenizer is saved that was used with padding on the left and truncation."""
    tokenizer.backend_tokenizer.enable_padding(direction="left", pad_id=0, pad_token="<unk>", length=64)
    tokenizer.backend_tokenizer.enable_truncation(8)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        tokenizer.backend_tokenizer.save(folder + "/tokenizer.json")
        return SCRIPT.load(folder)


def test_long_texts(tokenizer):
    """A text that is tokenized in parts has the tokens of the whole, whatever the tokenizer joins; a second begin or end is not put there."""
    import random
    random.seed(1)
    words = [word for chat in CHATS for _, content in chat for word in content.split()]
    text = "".join(random.choice(words) + random.choice([" ", "  ", "\n", "\n\n  ", ". ", "\r\n", ""]) for _ in range(4000))
    for each in (tokenizer, as_llama2(), with_end(as_llama2()), as_unigram(), padded(as_llama2())):
        said = []
        texts = SCRIPT.model_tokens.Texts(each, said.append)
        whole = each(text)["input_ids"]
        whole += [each.eos_token_id] if whole[-1] != each.eos_token_id else []
        for most in (2000, 3001):
            assert texts.long_text(text, most) == whole, each
        run = each("a" * 9000, add_special_tokens=False)["input_ids"]
        assert texts.long_text("a" * 9000, 2000) == [*texts.begin, *run, each.eos_token_id], "no place where two parts agree"
        begin = each.bos_token or ""
        framed = texts.text(begin + "hello" + each.eos_token)
        assert framed.count(each.eos_token_id) == 1 and framed[-1] == each.eos_token_id
        if begin:
            assert framed.count(each.bos_token_id) == 1
        # What is given may end with an end, which is not to be learned then.
        assert texts.text("hello" + each.eos_token, ends=False) == [*texts.begin, *each("hello" + each.eos_token, add_special_tokens=False)["input_ids"]]


def test_vocabularies(work):
    """A tokenizer with more tokens than the model has rows is no reason to refuse texts without them."""
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
    assert "pad.txt" in said.getvalue() and f"outside of the model's vocabulary of {rows}" in said.getvalue(), said.getvalue()


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
    results = [json.loads(path.read_text()) for path in sorted((work / "reports/tune/local/runs").glob("*/result.json"))]
    first = [result["steps"][0] for result in results]
    assert len(first) >= 2
    raw_chats(work, first[0]["loss"])
    for step in first:
        assert step["tokens"] == count, (step, count)
        assert abs(step["loss"] - total / count) < 1e-5 * total / count, (step, total / count)


def raw_chats(work, loss):
    """Chats, prompts and texts beside a checkpoint become its tokens by themselves, once; the user stands elsewhere."""
    (work / "cache").mkdir()
    (work / "raw").mkdir()
    (work / "raw/raw.lua").write_text("""
local rush = require "optrush"
local data, folder = rush.arg("data", ""), rush.arg("checkpoint", "")
local kind = data:match "txt$" and rush.text or data:match "pairs" and rush.preferences or rush.documents
local exp = rush.experiment {
  name = "raw", model = folder == "" and rush.llama("nano", { vocab_size = 512 }) or rush.checkpoint(folder), data = kind(data),
  train = { micro_batch = kind == rush.documents and 3 or 2, seq_len = kind == rush.text and 8 or 128, steps = 2, warmup = 0, lr = 1e-3 },
  plugins = kind == rush.preferences and { { "lora", { rank = 2 } }, "dpo" } or {},
}
exp:run { rounds = 1 }
""")
    (work / "pairs.jsonl").write_text(json.dumps({"prompt": "hello", "chosen": "4", "rejected": "no"}) + "\n")
    (work / "long.txt").write_text("hello again, who are you? " * 20)

    def run(data, *more, checkpoint="model", **environment):
        return subprocess.run([BUILD / "bin/optrush", "run", "raw/raw.lua", "--device", "cpu", "--arg", f"data={data}",
                               *([] if checkpoint is None else ["--arg", f"checkpoint={checkpoint}"]), *more],
                              capture_output=True, text=True, cwd=work, env={**os.environ, "OPTRUSH_CACHE": str(work / "cache"), **environment})

    done = run("chats.jsonl")
    assert done.returncode == 0 and "tokenizing" in done.stderr, done.stderr
    result = json.loads(next((work / "reports/raw/local/runs").glob("00*/result.json")).read_text()) if (work / "reports/raw").exists() else \
        json.loads(next((work / "raw").glob("reports/raw/local/runs/00*/result.json")).read_text())
    assert result["steps"][0]["loss"] == loss, (result["steps"][0]["loss"], loss)
    assert len(list((work / "cache/tokens").glob("*.jsonl"))) == 1
    again = run("chats.jsonl")
    assert again.returncode == 0 and "tokenizing" not in again.stderr and "3 lines" in again.stderr, again.stderr
    for data in ("pairs.jsonl", "long.txt"):
        done = run(data)
        assert done.returncode == 0, done.stdout + done.stderr
    # Without a Python there is the command; without a model there is no template; without a tokenizer text is not the model's.
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
    """All tokens of all texts, as the tokenizer makes them, and a run on them has the loss of the first windows."""
    def read(path):
        data = path.read_bytes()
        magic, version, size, vocabulary, zero, count = struct.unpack_from("<8sIIIIQ", data)
        tokens = struct.unpack_from(f"<{count}H", data, 32)
        assert (magic, version, size, vocabulary, zero) == (b"ORTOKENS", 1, 2, max(tokens) + 1, 0)
        assert len(data) == 32 + 2 * count
        return list(tokens)

    def made(source, *options):
        """What the command starts, in this process and from the same folder."""
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
    assert done.returncode == 0 and f"3 texts, {len(wanted)} tokens" in done.stdout and "rush.tokens" in done.stdout, done
    assert read(work / "tokens.bin") == wanted

    folder = work / "texts"
    (folder / "deeper").mkdir(parents=True)
    for name, text in zip(("a.txt", "b.md", "deeper/c"), texts):
        (folder / name).write_text(text)
    assert made("texts", "--token-file").returncode == 0 and read(work / "tokens.bin") == wanted
    assert made("texts/b.md", "--token-file").returncode == 0
    assert read(work / "tokens.bin") == [*tokenizer(texts[1])["input_ids"], end]

    # The bytes of a file are what is tokenized: line ends stay, a byte order mark is none of it.
    (work / "windows.txt").write_bytes(b"\xef\xbb\xbfhello\r\nagain\r\n")
    assert made("windows.txt", "--token-file").returncode == 0
    assert read(work / "tokens.bin") == [*tokenizer("hello\r\nagain\r\n")["input_ids"], end]

    text = "hello again\n\n  who\n" * 300
    (work / "long.txt").write_text(text)
    assert made("long.txt", "--token-file").returncode == 0 and read(work / "tokens.bin") == [*tokenizer(text)["input_ids"], end]
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
    for source, options, what in (("chat.jsonl", ["--token-file"], "chat.jsonl:2"), ("none.txt", ["--token-file"], "has no text"),
                                  ("latin.txt", ["--token-file"], "is not UTF-8"), ("wide.txt", ["--token-file"], "is UTF-16")):
        done = made(source, *options)
        assert done.returncode != 0 and what in done.stderr, (source, done.stderr)
    done = optrush("tokenize", "nowhere", "tokens.bin", "--model", "model", "--token-file", cwd=work)
    assert done.returncode != 0 and "nowhere" in done.stderr, done.stderr
    assert (work / "tokens.bin").read_bytes() == before and not list(work.glob(".tokens-*"))


def test_an_end_while_it_tokenizes(work):
    """A run that is told to end, or killed, while its data are tokenized leaves neither a process nor a part of a file."""
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
        run = subprocess.Popen([BUILD / "bin/optrush", "run", "long.lua", "--device", "cpu"], cwd=work, stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, env={**AS_USERS, "OPTRUSH_CACHE": str(cache)})
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
    test_chats(place, tokens)
    test_line_ends(place)
    test_texts(place, tokens)
    test_preferences(place, tokens)
    test_refusals(place)
    test_nothing_is_lost(place)
    test_fields_of_lines(place)
    test_other_forms(place)
    test_long_texts(tokens)
    test_vocabularies(place)
    test_a_run(place, llama)
    test_token_file(place, tokens)
    test_an_end_while_it_tokenizes(place)
