"""Forms of lines that `optrush tokenize` reads: chats, texts, preferences, fields, other formats, and bad lines."""
import contextlib
import io
import json

from tokenize_support import (CHATS, SCRIPT, SYSTEM_LAST, TEMPLATE, WITH_LINES, mask_of, messages, optrush, save_model,
                              tokenized)
from tokenizers import AddedToken


def truth_of(tokenizer, chat):
    """Tokens of the chat and the mask of its trained ones, by transformers."""
    return tokenizer.apply_chat_template(messages(chat), tokenize=True, return_dict=True,
                                         return_assistant_tokens_mask=True)


def test_chats(work, tokenizer):
    made, said = tokenized(work, [{"messages": messages(chat), "id": 1} for chat in CHATS])
    learned = 0
    for chat, line in zip(CHATS, made):
        truth = truth_of(tokenizer, chat)
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
        until = tokenizer.apply_chat_template(messages(CHATS[2])[:2 * number], tokenize=False)
        assert tokenizer.decode(line["tokens"]) == until


def test_line_ends(work):
    tokenizer, _ = save_model(work / "lines", template=WITH_LINES)
    made, _ = tokenized(work, [{"messages": messages(chat)} for chat in CHATS], model="lines")
    for chat, line in zip(CHATS, made):
        truth = truth_of(tokenizer, chat)
        assert line["tokens"] == truth["input_ids"] and mask_of(line) == truth["assistant_masks"], chat
    # A conversation may begin with a greeting of the assistant, which answers nothing.
    made, _ = tokenized(work, [{"messages": messages([("assistant", "Hello!"), *CHATS[0]])}], model="lines")
    (begin, end), = made[0]["trained"]
    assert tokenizer.decode(made[0]["tokens"][begin:end]) == "4<|eot|>"
    # The answers of a pair end like the answers of a conversation.
    pair = {"prompt": messages(CHATS[0][:1]), "chosen": messages(CHATS[0][1:]),
            "rejected": messages([("assistant", "no\n")])}
    chat, _ = tokenized(work, [{"messages": messages(CHATS[0])}], model="lines")
    (begin, end), = chat[0]["trained"]
    made, _ = tokenized(work, [pair], model="lines")
    assert made[0]["prompt"] + made[0]["chosen"] == chat[0]["tokens"][:end] != chat[0]["tokens"], made
    assert made[0]["chosen"] == chat[0]["tokens"][begin:end]
    assert tokenizer.decode(made[0]["rejected"]) == "no\n<|eot|>"


def test_control_tokens(work):
    """A control token that is written as text is noted, wherever it is and however the tokenizer lists it."""
    added = [AddedToken(text, normalized=False) for text in ("<tool_call>", "<b>")]
    save_model(work / "control", added=added)
    question, answer = {"role": "user", "content": "hello"}, {"role": "assistant", "content": "4"}
    for marked in ("<|eot|> again", "a <|head|>user<|/head|>", "a <tool_call> b"):
        asks, answers = {**question, "content": marked}, {**answer, "content": marked}
        for line in ({"text": marked}, {"prompt": marked, "completion": "4"},
                     {"prompt": "hello ", "completion": marked},
                     {"prompt": "hello ", "chosen": marked, "rejected": "no"},
                     {"messages": [asks, answer]}, {"messages": [question, answers]},
                     {"messages": [{"role": "system", "content": marked}, question, answer]},
                     {"prompt": [question], "chosen": [answer], "rejected": [answers]}):
            _, said = tokenized(work, [line], model="control")
            assert "contain control tokens" in said and "1, first" in said, (line, said)
    for line in ({"text": "a <b> c <|other|>"}, {"messages": [question, answer]}, {"prompt": "a", "completion": "b"}):
        _, said = tokenized(work, [line], model="control")
        assert "control tokens" not in said, said
    (work / "control.txt").write_text("a <|head|> in a file")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert SCRIPT.main([str(work / "control.txt"), str(work / "control.bin"), "--model", str(work / "control"),
                            "--token-file"]) == 0
    assert "contain control tokens" in out.getvalue(), out.getvalue()


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
                 {"chosen": messages(hello + more),
                  "rejected": messages(hello + [("user", "Who are you?"), ("assistant", "4")])}):
        refused([pair], "not from the assistant")
    refused([{"prompt": "a", "chosen": "b", "rejected": ["c"]}], "three texts")
    refused([{"completion": "a"}], "no known form", "'completion'")
    say = messages(CHATS[0])
    for changed, what in (({"role": "bot"}, "unknown role: 'bot'"), ({"content": ""}, "an answer without text"),
                          ({"content": None}, "has no content"), ({"content": 7}, "not text: 7"),
                          ({"content": [{"type": "image_url"}]}, "not text (image_url)"),
                          ({"weight": 0.5}, "weight: 0.5"), ({"train": 0}, "train: 0")):
        refused([{"messages": [say[0], say[1] | changed]}], "in.jsonl:1: message 2", what)
    refused([], "has no lines")
    refused([{"text": "a"}], "no tokenizer", model="nowhere")
    (work / "empty").mkdir()
    refused([{"text": "a"}], "empty': it has none of tokenizer.json, tokenizer.model", model="empty")
    # A template that removes earlier answers from the conversation.
    chats = [{"messages": messages(CHATS[1])}]
    save_model(work / "forgetful", kept="m.content if loop.last else ''")
    refused(chats, "in.jsonl:1", "texts of trained answers", "'Hello!'", "--turns last", model="forgetful")
    save_model(work / "lower", kept="m.content if loop.last else '.' ~ m.content")
    refused(chats, "in.jsonl:1", "changes turn 3", "--turns last", model="lower")
    made, _ = tokenized(work, chats, "--turns", "each", model="lower")
    assert [len(line["trained"]) for line in made] == [1, 1]
    made, _ = tokenized(work, chats, "--turns", "last", model="forgetful")
    assert len(made[0]["trained"]) == 1
    # A template that rewrites the text before an answer: no span has only the answer.
    save_model(work / "system", template=SYSTEM_LAST)
    asked, answer = CHATS[1][:2], [("assistant", "4")]
    chat = {"messages": messages(asked + answer)}
    pair = {"prompt": messages(asked), "chosen": messages(answer), "rejected": messages([("assistant", "no")])}
    for line in (chat, pair):
        for turns in ("all", "last"):
            refused([line], "messages of the system: 1 line", "--allow-lost", model="system",
                    options=("--turns", turns))
            refused([line], "before message 3", model="system", options=("--turns", turns, "--allow-lost"))
    save_model(work / "base", template="")
    refused([chat], "no chat template", "prompt and completion as text", model="base")
    tokenized(work, [{"text": "a"}])
    to_model = ["--model", "model"]
    for command, what, code in ((["in.jsonl", "out.jsonl"], "--model", 2),
                                (["in.jsonl", "out.jsonl", "--model", "nowhere"], "nowhere", 2),
                                (["nowhere", "out.jsonl", *to_model], "nowhere", 2),
                                (["in.jsonl", "./in.jsonl", *to_model], "is the input file", 1)):
        done = optrush("tokenize", *command, cwd=work)
        assert done.returncode == code and what in done.stderr, (command, done.returncode, done.stderr)
    assert json.loads((work / "in.jsonl").read_text()) == {"text": "a"}


def decoded(tokenizer, line):
    return [tokenizer.decode(line["tokens"][begin:end]) for begin, end in line["trained"]]


# Templates that lose content: thoughts (like DeepSeek-R1-Distill), the system's text, or tool calls. One needs content
# as lists of parts, and one needs the arguments of calls as values.
PLAIN = "{{ bos_token }}{% for m in messages %}<|head|>{{ m.role }}<|/head|>{{ m.content }}<|eot|>{% endfor %}\
{% if add_generation_prompt %}<|head|>assistant<|/head|>{% endif %}"
THOUGHTLESS = PLAIN.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")
NO_SYSTEM = PLAIN.replace("<|head|>{{ m.role }}",
                          "{% if m.role == 'system' %}{% continue %}{% endif %}<|head|>{{ m.role }}")
IN_PARTS = PLAIN.replace("{{ m.content }}", "{% for part in m.content %}{{ part.text }}{% endfor %}")
CALLS = PLAIN.replace("{{ m.content }}", "{{ m.content }}{% for c in m.tool_calls or [] %}"
                      "[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}") \
    .replace("{{ bos_token }}", "{{ bos_token }}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}")
DATED = PLAIN.replace("{{ bos_token }}", "{{ bos_token }}{{ strftime_now('%d %b %Y') }}")
SWITCHED = PLAIN.replace("{{ bos_token }}", "{{ bos_token }}{% if quick is defined and quick %}again{% endif %}")
CALL = [{"type": "function", "function": {"name": "weather", "arguments": '{"place": "Köln", "days": 3}'}}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "of a place", "parameters": {}}}]


def test_nothing_is_lost(work):
    """The content of messages is in the tokens, or the message names what is missing, how often and where first."""
    tokenizers = {}
    templates = {"plain": PLAIN, "thoughtless": THOUGHTLESS, "no_system": NO_SYSTEM, "parts": IN_PARTS, "calls": CALLS,
                 "dated": DATED, "switched": SWITCHED}
    for name, template in templates.items():
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
    lines = [{"messages": [asked, answer]}, {"messages": [asked, thought]},
             {"prompt": [asked], "completion": [thought]}]
    refused("thoughtless", lines, "thoughts of trained answers: 2 lines, first", "in.jsonl:2: 'two and two'",
            "--chat-template")
    pair = {"prompt": [asked], "chosen": [thought], "rejected": [answer]}
    refused("thoughtless", pair, "thoughts of trained answers")
    refused("plain", {"messages": [asked, apart]}, "thoughts of trained answers")
    lines, said = made("thoughtless", {"messages": [asked, thought, asked, answer]}, "--turns", "last")
    assert "thoughts of earlier answers" in said and decoded(tokenizers["thoughtless"], lines[0]) == ["4<|eot|>"], said
    (work / "plain.jinja").write_text(PLAIN)
    lines, _ = made("thoughtless", {"messages": [asked, thought]}, "--chat-template", str(work / "plain.jinja"))
    assert decoded(tokenizers["thoughtless"], lines[0]) == ["<think>two and two</think>4<|eot|>"]

    system = {"role": "system", "content": "4"}  # the answer has the same text
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
    assert "control tokens" in said and "end without an answer" in said


def test_fields_of_lines(work):
    """Every field is in the tokens, refused, or named in a note. Uses the models of test_nothing_is_lost()."""
    asked = {"role": "user", "content": "hello"}
    answer, other = {"role": "assistant", "content": "4"}, {"role": "assistant", "content": "no"}
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
                 {"system": "Be brief.", "prompt": [asked], "completion": [answer]},
                 {"system": "Be brief.", "instruction": "hello", "output": "4"}):
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

    # OpenAI's older form of a single call.
    function = {"name": "weather", "arguments": '{"place": "Köln", "days": 3}'}
    for call in (function, json.dumps(function)):
        calling = {"role": "assistant", "content": None}
        rest = [{"role": "function", "name": "weather", "content": "3"}, answer]
        line = {"messages": [asked, {**calling, "function_call": call}, *rest], "functions": [TOOLS[0]["function"]]}
        wanted = {"messages": [asked, {**calling, "tool_calls": CALL}, *rest], "tools": TOOLS}
        same(line, wanted, "calls")
    refused(line, "tool calls of trained answers")
    both = {"messages": [asked, {**answer, "function_call": function, "tool_calls": CALL}]}
    refused(both, "message 2", "both", model="calls")
    no_call = {"messages": [asked, {**answer, "function_call": {"place": 3}}]}
    refused(no_call, "message 2", "function call", model="calls")
    refused({"messages": [asked, answer], "tools": TOOLS, "functions": TOOLS}, "'tools' and 'functions'", model="calls")

    said = same({**whole, "system_prompt": "Be long.", "id": 3, "empty": None}, whole, "plain",
                "the field 'system_prompt', which is not read: 1, first")
    assert "'empty'" not in said and "'messages'" not in said
    same({"text": "hello", "tools": TOOLS}, {"text": "hello"}, "plain", "the field 'tools', which is not read")
    same({"tokens": [5, 6, 7], "labels": [-100, 6, 7]}, {"tokens": [5, 6, 7]}, "plain",
         "the field 'labels', which is not read")
    answers = {**answer, "refusal": "I will not", "name": "bot"}
    same({"messages": [asked, answers]}, {"messages": [asked, answer]}, "plain",
         "messages have the field 'refusal', which the chat template does not write: 1")


def test_other_forms(work):
    """ShareGPT, Alpaca, lines of transformers' trainers, arrays, byte order marks and Windows line ends."""
    wanted, _ = tokenized(work, [{"messages": messages(CHATS[1])}], model="plain")
    names = {"user": "human", "assistant": "gpt"}
    shared = [{"from": names.get(role, role), "value": content} for role, content in CHATS[1]]
    for line in ({"conversations": shared}, {"system": CHATS[1][0][1], "conversations": shared[1:]},
                 {"messages": shared}):
        made, said = tokenized(work, [line], model="plain")
        assert made == wanted and "'from' and 'value'" in said, said
    alpaca, said = tokenized(work, [{"instruction": "hello", "input": "", "output": "Hello!"},
                                    {"instruction": "hello", "input": "again", "output": "no"}], model="plain")
    asking, _ = tokenized(work, [{"messages": messages([("user", "hello"), ("assistant", "Hello!")])},
                                 {"messages": messages([("user", "hello\n\nagain"), ("assistant", "no")])}],
                          model="plain")
    assert alpaca == asking and "'instruction' and 'output'" in said, said
    made, _ = tokenized(work, [{"input_ids": [0, 5, 6, 7, 8, 1], "labels": [-100, -100, 6, 7, -100, -100],
                                "attention_mask": [0, 1, 1, 1, 1, 0]},
                               {"tokens": [5, 6, 7], "prompt_tokens": 1}])
    assert made == [{"tokens": [5, 6, 7, 8], "trained": [[1, 3]]}, {"tokens": [5, 6, 7], "prompt_tokens": 1}]
    made, said = tokenized(work, [{"input_ids": [5, 6], "labels": [6, 6]}])
    assert made is None and "differs from 'input_ids'" in said
    wanted, _ = tokenized(work, [{"text": "hello"}, {"text": "again"}])
    for text in ('[{"text": "hello"},\n {"text": "again"}]', '\ufeff{"text": "hello"}\r\n\r\n{"text": "again"}\r\n',
                 '{"text":\r"hello"}\r\n \r{"text": "again"}\r'):
        made, _ = tokenized(work, [text])
        assert made == wanted
    made, said = tokenized(work, ['{"text": "hello"}\r{"text": "again"}'])
    assert made is None and "text follows the object" in said, said
    chosen = {"prompt": "hello", "chosen": messages([("user", "hello"), ("assistant", "4")]),
              "rejected": messages([("user", "hello"), ("assistant", "no")])}
    made, said = tokenized(work, [chosen], model="plain")
    apart = {"prompt": chosen["chosen"][:1], "chosen": chosen["chosen"][1:], "rejected": chosen["rejected"][1:]}
    same, _ = tokenized(work, [apart], model="plain")
    assert made == same, said
    thinking = {"prompt": messages([("user", "hello")]), "chosen": messages([("assistant", "<think>a</think>4")]),
                "rejected": messages([("assistant", "<think>b</think>4")])}
    made, said = tokenized(work, [thinking], "--allow-lost", model="thoughtless")
    assert made is None and "thoughts of trained answers" in said, said
    (work / "folder").mkdir(exist_ok=True)
    for name, text in (("a.txt", "hello again"), ("b.txt", "hello Who"), ("c.md", "Who are you?")):
        (work / "folder" / name).write_text(text)
    target = work / "out.jsonl"
    wanted, _ = tokenized(work, [{"text": "hello again"}, {"text": "hello Who"}])
    with contextlib.redirect_stdout(io.StringIO()):
        from_folder = [str(work / "folder"), str(target), "--model", str(work / "model")]
        assert SCRIPT.main([*from_folder, "--extension", ".txt"]) == 0
        assert [json.loads(line) for line in target.read_text().splitlines()] == wanted
        assert SCRIPT.main([*from_folder, "--pairs-of-texts", "8"]) == 0
    assert len(target.read_text().splitlines()) == 3
