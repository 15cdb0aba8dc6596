"""Turns texts, conversations and preferences into tokens for rush.documents and rush.preferences.

`optrush tokenize` starts it; docs/experiments.md, "Tokens of a model's own", has the forms of a line. The tokenizer and
the chat template are those of a Hugging Face folder, used through transformers. The loss is taken on what the assistant
says: of a conversation on its turns, each with the token that ends it; of a prompt and its completion on the completion.
"""

import argparse
import json
import os
import sys
import tempfile

FORMS = """a line is {"messages": [...]}, {"prompt": ..., "completion": ...}, {"text": "..."} or
        {"prompt": ..., "chosen": ..., "rejected": ...}, where ... is text or a list of messages"""


class Refused(Exception):
    def __init__(self, what, cure=FORMS):
        super().__init__(what)
        self.cure = cure


def common(first, second):
    """How many elements two lists begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))


def is_conversation(value):
    return isinstance(value, list) and value and all(isinstance(m, dict) and "role" in m for m in value)


class Tokens:
    """A tokenizer's view of a line: lists of tokens."""

    def __init__(self, tokenizer, turns):
        self.tokenizer = tokenizer
        self.turns = turns

    def text(self, text, ends=True):
        """The special tokens that the tokenizer itself puts there, and its end of a text behind them."""
        tokens = list(self.tokenizer(text)["input_ids"])
        end = self.tokenizer.eos_token_id
        if end is not None and tokens and tokens[-1] == end:
            tokens.pop()
        return tokens + [end] if ends and end is not None else tokens

    def chat(self, messages, tools=None, asks=False):
        """`asks`: with what the template puts before an answer."""
        try:
            return list(self.tokenizer.apply_chat_template(messages, tools=tools, tokenize=True, return_dict=False,
                                                           add_generation_prompt=asks))
        except Exception as error:  # a template may raise what it likes
            raise Refused(f"the chat template refuses it: {error}", "see what roles and order the model's template takes")

    def turn(self, messages, place, whole, tools):
        """[begin, end) of a turn of the assistant in the tokens of the whole conversation."""
        before, until = messages[:place], self.chat(messages[:place + 1], tools)
        # What is common may end inside of what the template puts before an answer: tokens merge at its end.
        begin = common(self.chat(before, tools, asks=True), whole) if before else 0
        end = common(until, whole)
        ends_the_chat = until[-1] == self.tokenizer.eos_token_id  # some templates end a chat, not a turn, with it
        if (before and begin < common(self.chat(before, tools), whole)) or begin >= end or end < len(until) - ends_the_chat:
            raise Refused(f"the chat template writes turn {place + 1} otherwise once later ones follow",
                          "--turns last takes the loss on the last answer alone" if self.turns == "all"
                          else "split the conversation, so that each answer to learn from is the last one")
        return [begin, end]

    def conversation(self, messages, tools, first=0):
        """All of it; the loss is taken on the assistant's turns from message `first` on."""
        whole = self.chat(messages, tools)
        places = [i for i in range(first, len(messages)) if messages[i]["role"] == "assistant"]
        if not places:
            raise Refused("no message of the assistant is there to learn from")
        wanted = places if self.turns == "all" else places[-1:]
        return {"tokens": whole, "trained": [self.turn(messages, place, whole, tools) for place in wanted]}

    def completion(self, prompt, completion, tools):
        if is_conversation(prompt) and is_conversation(completion):
            return self.conversation(prompt + completion, tools, first=len(prompt))
        if not isinstance(prompt, str) or not isinstance(completion, str):
            raise Refused("'prompt' and 'completion' have to be two texts or two lists of messages")
        whole = self.text(prompt + completion)
        return {"tokens": whole, "prompt_tokens": common(self.text(prompt, ends=False), whole)}

    def preference(self, line):
        prompt, chosen, rejected = (line.get(name) for name in ("prompt", "chosen", "rejected"))
        if is_conversation(chosen) and is_conversation(rejected) and prompt is None:  # it is what both begin with
            shared = common(chosen, rejected)
            prompt, chosen, rejected = chosen[:shared], chosen[shared:], rejected[shared:]
        tools = line.get("tools")
        if is_conversation(prompt) and is_conversation(chosen) and is_conversation(rejected):
            asked = self.chat(prompt, tools, asks=True)
            answers = [self.chat(prompt + answer, tools) for answer in (chosen, rejected)]
        elif all(isinstance(part, str) for part in (prompt, chosen, rejected)):
            asked = self.text(prompt, ends=False)
            answers = [self.text(prompt + answer) for answer in (chosen, rejected)]
        else:
            raise Refused("'prompt', 'chosen' and 'rejected' have to be three texts or three lists of messages")
        given = min(common(asked, answer) for answer in answers)
        if given == 0 or any(len(answer) == given for answer in answers):
            raise Refused("a pair has a prompt and two answers")
        return {"prompt": answers[0][:given], "chosen": answers[0][given:], "rejected": answers[1][given:]}

    def line(self, line):
        if not isinstance(line, dict):
            raise Refused("a line is a JSON object")
        if "chosen" in line or "rejected" in line:
            return self.preference(line)
        if "messages" in line:
            if not is_conversation(line["messages"]):
                raise Refused("'messages' has to be a list of {\"role\": ..., \"content\": ...}")
            return self.conversation(line["messages"], line.get("tools"))
        if "prompt" in line:
            return self.completion(line["prompt"], line.get("completion"), line.get("tools"))
        if not isinstance(line.get("text"), str) or not line["text"]:
            raise Refused("there is nothing to learn from")
        return {"tokens": self.text(line["text"])}


class Counts:
    """What came of a file."""

    def __init__(self):
        self.lines = self.tokens = self.trained = self.longest = 0

    def add(self, made):
        self.lines += 1
        if "tokens" in made:
            length = len(made["tokens"])
            spans = made.get("trained") or [[made.get("prompt_tokens", 0), length]]
            self.trained += sum(end - max(begin, 1) for begin, end in spans)
        else:
            length = len(made["prompt"]) + max(len(made["chosen"]), len(made["rejected"]))
            self.trained += len(made["chosen"]) + len(made["rejected"])
        self.tokens += length if "tokens" in made else 2 * len(made["prompt"]) + len(made["chosen"]) + len(made["rejected"])
        self.longest = max(self.longest, length)

    def __str__(self):
        share = 100 * self.trained / max(self.tokens, 1)
        return (f"{self.lines:,} lines, {self.tokens:,} tokens, a loss is taken on {self.trained:,} ({share:.0f} %), "
                f"the longest has {self.longest:,}")


def write(source, target, tokens):
    """All of a file, or nothing."""
    counts, kinds = Counts(), set()
    folder = os.path.dirname(os.path.abspath(target))
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".tokenize-", delete=False) as out:
        try:
            with open(source, encoding="utf-8") as file:
                for number, text in enumerate(file, 1):
                    if not text.strip():
                        continue
                    try:
                        made = tokens.line(json.loads(text))
                        kinds.add("pairs" if "chosen" in made else "documents")
                        if len(kinds) > 1:
                            raise Refused("the file has documents and pairs", "put them into two files")
                    except json.JSONDecodeError as error:
                        raise Refused(f"{source}:{number}: {error}") from None
                    except Refused as error:
                        raise Refused(f"{source}:{number}: {error}", error.cure) from None
                    counts.add(made)
                    out.write(json.dumps(made, separators=(",", ":")) + "\n")
            if counts.lines == 0:
                raise Refused(f"'{source}' has no lines")
            out.flush()
            os.fsync(out.fileno())
            os.chmod(out.name, 0o666 & ~mask())
            os.replace(out.name, target)
        except BaseException:
            os.unlink(out.name)
            raise
    return counts, kinds.pop()


def mask():
    old = os.umask(0)
    os.umask(old)
    return old


def load(model):
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise Refused(f"transformers is not installed for {sys.executable}",
                      f"{sys.executable} -m pip install transformers, or name another Python by OPTRUSH_PYTHON") from None
    try:
        return AutoTokenizer.from_pretrained(model)
    except Exception as error:  # of transformers, of huggingface_hub, of files
        raise Refused(f"'{model}' has no tokenizer that transformers can load: {error}",
                      "give the folder of a model, with tokenizer.json and tokenizer_config.json") from None


def main(words=None):
    parser = argparse.ArgumentParser(prog="optrush tokenize")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--model", required=True)
    parser.add_argument("--turns", choices=["all", "last"], default="all")
    arguments = parser.parse_args(words)
    try:
        counts, kind = write(arguments.source, arguments.target, Tokens(load(arguments.model), arguments.turns))
    except (Refused, OSError, UnicodeDecodeError) as error:
        print(f"optrush: error: {error}", file=sys.stderr)
        if isinstance(error, Refused):
            print(f"  hint: {error.cure}", file=sys.stderr)
        return 1
    reader = "rush.documents" if kind == "documents" else "rush.preferences"
    print(f"{counts}\n{reader} {json.dumps(arguments.target)} reads them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
