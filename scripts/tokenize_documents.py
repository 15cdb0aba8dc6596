"""Turns texts, conversations and preferences into tokens for rush.documents and rush.preferences.

`optrush tokenize` starts it; docs/experiments.md, "Tokens of a model's own", has the forms of a line. The tokenizer and
the chat template are those of a Hugging Face folder, used through transformers. The loss is taken on what the assistant
says: of a conversation on its turns, each with the token that ends it; of a prompt and its completion on the completion.
With --token-file all texts are one file of tokens, for rush.tokens (token_file.py).
"""

import argparse
import json
import os
import sys
import tempfile

import token_file

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
        self.end = tokenizer.eos_token_id
        self.special = set(tokenizer.all_special_ids) | {
            number for number, token in tokenizer.added_tokens_decoder.items() if token.special}

    def text(self, text, ends=True):
        """The special tokens that the tokenizer itself puts there, and its end of a text behind them."""
        tokens = list(self.tokenizer(text)["input_ids"])
        if self.end is not None and tokens and tokens[-1] == self.end:
            tokens.pop()
        return tokens + [self.end] if ends and self.end is not None else tokens

    def chat(self, messages, tools=None, asks=False):
        """`asks`: with what the template puts before an answer."""
        if not self.tokenizer.chat_template:
            raise Refused("the tokenizer has no chat template",
                          "take the folder of the model that was tuned for chats, or give prompt and completion as text")
        try:
            return list(self.tokenizer.apply_chat_template(messages, tools=tools, tokenize=True, return_dict=False,
                                                           add_generation_prompt=asks))
        except ImportError as error:
            raise Refused(f"the chat template can't be read: {error}", f"{sys.executable} -m pip install jinja2") from None
        except Exception as error:  # a template may raise what it likes
            raise Refused(f"the chat template refuses it: {error}", "see what roles and order the model's template takes") from None

    def begins(self, shorter, whole):
        """Whether a conversation begins as its first messages alone do. Some templates end every chat as a text ends, and a token
        may take in what follows."""
        ended = bool(shorter) and shorter[-1] == self.end
        return common(shorter, whole) >= len(shorter) - ended - (0 if shorter and shorter[-1] in self.special else 1)

    def asked(self, before, tools, wholes):
        """How many tokens of each of these conversations stand before the answer to their first messages."""
        asking = self.chat(before, tools, asks=True)
        if not all(self.begins(self.chat(before, tools), whole) for whole in wholes):
            raise Refused(f"the chat template writes the messages before {len(before) + 1} otherwise once that one follows",
                          "no span of it is the answer alone: use a template that begins alike, or split system text off")
        # What is common may end inside of what the template puts before an answer: tokens merge at its end.
        return min(common(asking, whole) for whole in wholes)

    def turn(self, messages, place, whole, tools):
        """[begin, end) of a turn of the assistant in the tokens of the whole conversation."""
        until = self.chat(messages[:place + 1], tools)
        if not self.begins(until, whole):
            raise Refused(f"the chat template writes turn {place + 1} otherwise once later ones follow",
                          "--turns last takes the loss on the last answer alone" if self.turns == "all"
                          else "split the conversation, so that each answer to learn from is the last one")
        begin, end = self.asked(messages[:place], tools, [whole]), common(until, whole)
        # Behind the token that ends a turn some templates put white space, which no model is asked for.
        last = max((i for i in range(begin, end) if whole[i] in self.special), default=end)
        if not self.tokenizer.decode(whole[last + 1:end]).strip():
            end = min(last + 1, end)
        if begin >= end:
            raise Refused(f"turn {place + 1} has nothing to learn from")
        return [begin, end]

    def conversation(self, messages, tools, first=0):
        """All of it; the loss is taken on the assistant's turns from message `first` on, each an answer to what is before it."""
        whole = self.chat(messages, tools)
        places = [i for i in range(max(first, 1), len(messages)) if messages[i]["role"] == "assistant"]
        if not places:
            raise Refused("no answer of the assistant is there to learn from")
        wanted = places if self.turns == "all" else places[-1:]
        return {"tokens": whole, "trained": [self.turn(messages, place, whole, tools) for place in wanted]}

    def completion(self, prompt, completion, tools):
        if is_conversation(prompt) and is_conversation(completion):
            return self.conversation(prompt + completion, tools, first=len(prompt))
        if not isinstance(prompt, str) or not isinstance(completion, str):
            raise Refused("'prompt' and 'completion' have to be two texts or two lists of messages")
        if not completion:
            raise Refused("'completion' is empty")
        whole = self.text(prompt + completion)
        return {"tokens": whole, "prompt_tokens": common(self.text(prompt, ends=False), whole)}

    def preference(self, line):
        prompt, chosen, rejected = (line.get(name) for name in ("prompt", "chosen", "rejected"))
        if chosen is not None and chosen == rejected:
            raise Refused("'chosen' and 'rejected' are the same", "leave out what nothing can be learned from")
        if is_conversation(chosen) and is_conversation(rejected) and prompt is None:  # it is what both begin with
            shared = common(chosen, rejected)
            prompt, chosen, rejected = chosen[:shared], chosen[shared:], rejected[shared:]
        tools = line.get("tools")
        if is_conversation(prompt) and is_conversation(chosen) and is_conversation(rejected):
            for answer in (chosen, rejected):
                if answer[0]["role"] != "assistant" or any(message["role"] not in ("assistant", "tool") for message in answer):
                    raise Refused("an answer has messages that the assistant does not write",
                                  "what the user says belongs to the prompt, which is the same for both answers")
            answers = [self.chat(prompt + answer, tools) for answer in (chosen, rejected)]
            given = self.asked(prompt, tools, answers)
        elif all(isinstance(part, str) and part for part in (prompt, chosen, rejected)):
            answers = [self.text(prompt + answer) for answer in (chosen, rejected)]
            asked = self.text(prompt, ends=False)
            given = min(common(asked, answer) for answer in answers)
        else:
            raise Refused("'prompt', 'chosen' and 'rejected' have to be three texts or three lists of messages")
        if given == 0 or any(len(answer) == given for answer in answers):
            raise Refused("a pair has a prompt and two answers")
        return {"prompt": answers[0][:given], "chosen": answers[0][given:], "rejected": answers[1][given:]}

    def document(self, line):
        if "messages" in line:
            if not is_conversation(line["messages"]):
                raise Refused("'messages' has to be a list of {\"role\": ..., \"content\": ...}")
            made = self.conversation(line["messages"], line.get("tools"))
        elif "prompt" in line:
            made = self.completion(line["prompt"], line.get("completion"), line.get("tools"))
        elif isinstance(line.get("text"), str) and line["text"]:
            made = {"tokens": self.text(line["text"])}
        else:
            raise Refused("there is nothing to learn from")
        if len(made["tokens"]) < 2:
            raise Refused("it is one token, and one is read where the next one is predicted")
        return made

    def line(self, line):
        if not isinstance(line, dict):
            raise Refused("a line is a JSON object")
        try:
            json.dumps(line, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Refused("it has half of a character: a surrogate without its other one", "cut texts between characters") from None
        return self.preference(line) if "chosen" in line or "rejected" in line else self.document(line)


class Counts:
    """What came of a file."""

    def __init__(self):
        self.lines = self.tokens = self.trained = self.longest = 0

    def add(self, made):
        if "tokens" in made:
            lengths = [len(made["tokens"])]
            spans = made.get("trained") or [[made.get("prompt_tokens", 0), lengths[0]]]
            self.trained += sum(end - max(begin, 1) for begin, end in spans)
        else:
            answers = [len(made[name]) for name in ("chosen", "rejected")]
            lengths = [len(made["prompt"]) + answer for answer in answers]
            self.trained += sum(answers)
        self.lines += 1
        self.tokens += sum(lengths)
        self.longest = max(self.longest, *lengths)

    def __str__(self):
        share = 100 * self.trained / max(self.tokens, 1)
        return (f"{self.lines:,} lines, {self.tokens:,} tokens, a loss is taken on {self.trained:,} ({share:.0f} %), "
                f"the longest has {self.longest:,}")


def check_apart(source, target):
    if os.path.exists(target) and os.path.samefile(source, target):
        raise Refused(f"'{target}' is what is read", "give another name for what is written")


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
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # a tokenizer needs no PyTorch, and is told so each time
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise Refused(f"transformers is not installed for {sys.executable}",
                      f"{sys.executable} -m pip install transformers, or name another Python by --python") from None
    try:
        return AutoTokenizer.from_pretrained(model, local_files_only=True)
    except Exception as error:  # of transformers, of huggingface_hub, of files
        raise Refused(f"'{model}' has no tokenizer that transformers can load: {error}",
                      "give the folder of a model, with tokenizer.json and tokenizer_config.json") from None


def refuse(what, cure):
    print(f"optrush: error: {what}\n  hint: {cure}", file=sys.stderr)
    return 1


def main(words=None):
    parser = argparse.ArgumentParser(prog="optrush tokenize")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--model", required=True)
    parser.add_argument("--turns", choices=["all", "last"], default="all")
    parser.add_argument("--token-file", action="store_true")
    arguments = parser.parse_args(words)
    source, target = arguments.source, arguments.target
    try:
        check_apart(source, target)
        if os.path.isdir(source) and not arguments.token_file:
            raise Refused(f"'{source}' is a folder", "--token-file makes one token file of its texts")
        tokenizer = load(arguments.model)
        if arguments.token_file:
            texts, count = token_file.write(source, target, tokenizer, Refused)
            print(f"{texts:,} texts, {count:,} tokens\nrush.tokens {json.dumps(target)} reads them")
            return 0
        counts, kind = write(source, target, Tokens(tokenizer, arguments.turns))
    except Refused as error:
        return refuse(error, error.cure)
    except UnicodeDecodeError as error:
        return refuse(f"'{source}' is not UTF-8: {error}", "convert it to UTF-8")
    except OSError as error:
        return refuse(error, "read one file and write another, in a folder that can be written to")
    reader = "rush.documents" if kind == "documents" else "rush.preferences"
    print(f"{counts}\n{reader} {json.dumps(target)} reads them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
