"""Turns texts, conversations and preferences into tokens for rush.documents and rush.preferences.

`optrush tokenize` starts it; docs/guides/fine_tuning.md has the forms of a line. The tokenizer and the chat template
are from a Hugging Face folder and used through transformers. The assistant's text has the loss: in a conversation its
turns, each with the token that ends it; in a prompt with a completion, the completion. With --token-file all texts
become one file of tokens, for rush.tokens (token_file.py). Content that the chat template leaves out is counted, and
refused if it has a loss.
"""

import argparse
import datetime
import json
import os
import sys

import data_lines
import model_tokens
import token_file
from data_lines import Refused
from output_file import check_apart, check_vocabulary, whole_file


# A tokenizer has one of these files.
VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


class Notes:
    """Counts of events, with the place of the first one."""

    def __init__(self):
        self.counts = {}
        self.where = None

    def __call__(self, what):
        count, first, last = self.counts.get(what, (0, self.where, None))
        if last != self.where:
            self.counts[what] = count + 1, first, self.where

    def lines(self):
        return [f"note: {what}: {count:,}, first {first}" for what, (count, first, _) in self.counts.items()]


class Losses(Notes):
    """Content that the chat template leaves out. Content with a loss must be complete. Content of earlier answers may
    be missing, because the model does not see it in use either. The rest may be allowed."""

    def __init__(self, allowed):
        super().__init__()
        self.allowed = allowed
        self.fatal = self.of_last = False
        self.texts, self.refused = {}, set()

    def __call__(self, what, text, learned, usual, last):
        super().__call__(what)
        self.texts.setdefault(what, text)
        self.of_last = self.of_last or (learned and last)
        if learned or not (usual or self.allowed):
            self.refused.add(what)
            self.fatal = True

    def lines(self, only=None):
        return [f"{what}: {count:,} {'line' if count == 1 else 'lines'}, first {first}: {self.texts[what][:60]!r}"
                for what, (count, first, _) in self.counts.items() if only is None or what in only]

    def check(self):
        if not self.refused:
            return
        cure = (
            "use a template that keeps them (--chat-template FILE), or an option of the template (--template-arg "
            "NAME=VALUE)"
        )
        if not any(what.endswith("of trained answers") for what in self.refused):
            cure = (
                "use another template (--chat-template FILE), or --allow-lost, which drops them like the model's "
                "own template"
            )
        elif not self.of_last:
            cure = (
                "use --turns each or --turns last, which train an answer only as the last message, where nothing "
                f"is lost; or {cure}"
            )
        raise Refused(
            "the chat template drops or changes parts of the conversations:\n  "
            + "\n  ".join(self.lines(self.refused)),
            cure,
        )


class Counts:
    """The counts of a file."""

    def __init__(self):
        self.lines = self.tokens = self.trained = self.longest = self.largest = 0

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
        return (
            f"{self.lines:,} {'line' if self.lines == 1 else 'lines'}, {self.tokens:,} tokens, {self.trained:,} of "
            f"them trained ({share:.0f} %), "
            f"{self.longest:,} in the longest"
        )


def lines_of(source, extensions):
    """(place, line) for each line."""
    if not os.path.isdir(source):
        yield from data_lines.objects(source)
        return
    for path in data_lines.files_of(source, extensions):
        if text := data_lines.text_of(path):
            yield path, {"text": text}


def write(source, target, tokens, extensions=(), vocabulary=None):
    """Writes a complete file, or none."""
    counts, kinds = Counts(), set()
    with whole_file(target, "w", ".tokenize-") as out:
        for where, line in lines_of(source, extensions):
            tokens.notes.where = tokens.losses.where = where
            try:
                for made in tokens.line(line):
                    kinds.add("pairs" if "chosen" in made else "documents")
                    if len(kinds) > 1:
                        raise Refused("the file has both documents and pairs", "use two files")
                    check_vocabulary(made, tokens.tokenizer, vocabulary)
                    counts.add(made)
                    out.write(json.dumps(made, separators=(",", ":")) + "\n")
            except Refused as error:
                raise data_lines.at(where, error) from None
        tokens.losses.check()
        if counts.lines == 0:
            raise Refused(f"'{source}' has no lines" + (" to train on" if tokens.notes.counts else ""))
    return counts, kinds.pop()


def pairs_of_texts(source, target, tokens, extensions, most):
    """Makes pairs from plain texts. Of the last `most` tokens of each text, the first half is the prompt and the
    second half the chosen answer. An equally long part of the second half of the next different text is the rejected
    answer."""
    texts = []
    for where, line in lines_of(source, extensions):
        tokens.notes.where = where
        made = tokens.without_marks(tokens.ids(line["text"][-16 * most:], add_special_tokens=False)[-most:])
        if len(made) > 1:
            texts.append(made)
    counts, end = Counts(), [] if tokens.end is None else [tokens.end]
    with whole_file(target, "w", ".tokenize-") as out:
        for place, text in enumerate(texts):
            half = len(text) // 2
            prompt, chosen = tokens.begin + text[:half], text[half:]
            others = (texts[(place + step) % len(texts)] for step in range(1, len(texts)))
            rejected = next(
                (other for other in (other[len(other) // 2 :][: len(chosen)] for other in others) if other != chosen),
                None,
            )
            if rejected is None:
                raise Refused(f"'{source}' needs two texts with different second halves", "add a text")
            made = {"prompt": prompt, "chosen": chosen + end, "rejected": rejected + end}
            counts.add(made)
            out.write(json.dumps(made, separators=(",", ":")) + "\n")
        if not texts:
            raise Refused(f"'{source}' has no text", "give a folder of texts")
    return counts, "pairs"


def load(model):
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # silences the warning that PyTorch is missing
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise Refused(
            f"transformers is not installed for {sys.executable}",
            f"{sys.executable} -m pip install transformers jinja2, or name another Python with --python",
        ) from None
    try:
        return AutoTokenizer.from_pretrained(model, local_files_only=True)
    except Exception as error:  # from transformers, huggingface_hub or files
        if not any(os.path.exists(os.path.join(model, name)) for name in VOCABULARIES):
            raise Refused(f"there is no tokenizer in '{model}': it has none of {', '.join(VOCABULARIES)}",
                          "copy the tokenizer's files of the model into this folder, or name the folder that has them "
                          "with --model") from None
        raise Refused(f"'{model}' has no tokenizer that transformers can load: {error}",
                      "give the folder of a model, with tokenizer.json and tokenizer_config.json") from None


def vocabulary_of(model):
    """The vocabulary size of the model of the tokenizer; None if there is no model."""
    try:
        with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
            size = (config.get("text_config") or config).get("vocab_size")
    except (OSError, ValueError, AttributeError):
        return None
    return size if isinstance(size, int) else None


def template_arguments(words):
    arguments = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not name.isidentifier() or not equals:
            raise Refused(
                f"--template-arg takes NAME=VALUE, not '{word}'", "for example --template-arg enable_thinking=false"
            )
        try:
            arguments[name] = json.loads(text)
        except ValueError:
            arguments[name] = text
    return arguments


def date_of(text):
    if text is None:
        return None
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Refused(f"--date needs a date, not '{text}'", "for example --date 2024-07-26") from None


def refuse(what, cure):
    print(f"optrush: error[invalid_file]: {what}\n  hint: {cure}", file=sys.stderr)
    return 1


def parse(words):
    parser = argparse.ArgumentParser(prog="optrush tokenize")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--model", required=True)
    parser.add_argument("--turns", choices=["all", "last", "each"], default="all")
    parser.add_argument("--token-file", action="store_true")
    parser.add_argument("--template-arg", action="append", default=[])
    parser.add_argument("--chat-template")
    parser.add_argument("--date")
    parser.add_argument("--allow-lost", action="store_true")
    parser.add_argument("--extension", action="append", default=[])
    parser.add_argument("--pairs-of-texts", type=int)
    return parser.parse_args(words)


def make(asked, notes, losses):
    """Makes the file. Returns a description of it."""
    check_apart(asked.source, asked.target)
    tokenizer = load(asked.model)
    template = data_lines.text_of(asked.chat_template) if asked.chat_template else None
    arguments, date = template_arguments(asked.template_arg), date_of(asked.date)
    tokens = model_tokens.Tokens(tokenizer, notes, losses, asked.turns, template, arguments, date)
    vocabulary = vocabulary_of(asked.model)
    if asked.token_file:
        texts, count = token_file.write(asked.source, asked.target, tokens, asked.extension, vocabulary)
        return f"{texts:,} {'text' if texts == 1 else 'texts'}, {count:,} tokens", "rush.tokens"
    if asked.pairs_of_texts:
        counts, kind = pairs_of_texts(asked.source, asked.target, tokens, asked.extension, asked.pairs_of_texts)
    else:
        counts, kind = write(asked.source, asked.target, tokens, asked.extension, vocabulary)
    return str(counts), "rush.documents" if kind == "documents" else "rush.preferences"


def main(words=None):
    asked = parse(words)
    notes, losses = Notes(), Losses(asked.allow_lost)
    try:
        said, reader = make(asked, notes, losses)
    except Refused as error:
        return refuse(error, error.cure)
    except OSError as error:
        return refuse(error, "give a readable input file, and an output file in a writable folder")
    for line in [*notes.lines(), *(f"note: the chat template drops: {line}" for line in losses.lines())]:
        print(line)
    print(f"{said}\n{reader} {json.dumps(asked.target)} reads them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
