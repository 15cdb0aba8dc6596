"""Writes texts as one token file (docs/experiments.md, "Token file"), for rush.tokens.

A file of JSON objects has a text a line; any other file, and each file of a folder, is a text itself. One follows the
other, each with the special tokens that the tokenizer puts before a text and its end of a text behind it.
"""

import array
import json
import os
import re
import struct
import tempfile

HEADER = "<8sIIIIQ"
PART = 1 << 20  # characters of a long text that are tokenized at a time


def parts_of(text):
    """A long text in parts that end behind a line, where no tokenizer joins what stands on both sides."""
    begin = 0
    while len(text) - begin > PART:
        line_end = re.compile(r"\n(?=\S)").search(text, begin + PART)
        if line_end is None:
            break
        yield text[begin:line_end.end()]
        begin = line_end.end()
    yield text[begin:]


def files_of(source):
    if not os.path.isdir(source):
        return [source]
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names)


def texts_of(source, refuse):
    """(where it stands, text)"""
    if os.path.isdir(source) or not source.endswith(".jsonl"):
        for path in files_of(source):
            with open(path, encoding="utf-8") as file:
                yield path, file.read()
        return
    with open(source, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{source}:{number}"
            try:
                text = json.loads(line)
            except json.JSONDecodeError as error:
                raise refuse(f"{where}: {error}") from None
            if not isinstance(text, dict) or not isinstance(text.get("text"), str):
                raise refuse(f"{where}: a line of a token file's source is {{\"text\": \"...\"}}",
                             "without --token-file conversations and pairs are read, too")
            yield where, text["text"]


def write(source, target, tokenizer, refuse):
    """The numbers of texts and of tokens."""
    vocabulary = len(tokenizer)
    kind = "H" if vocabulary <= 1 << 16 else "I"
    end = tokenizer.eos_token_id
    texts = count = 0
    with tempfile.NamedTemporaryFile("wb", dir=os.path.dirname(os.path.abspath(target)), prefix=".tokens-", delete=False) as out:
        try:
            out.write(bytes(struct.calcsize(HEADER)))
            for where, text in texts_of(source, refuse):
                if not text:
                    continue
                texts += 1
                for number, part in enumerate(parts_of(text)):
                    try:
                        made = list(tokenizer(part, add_special_tokens=number == 0)["input_ids"])
                    except UnicodeEncodeError:
                        raise refuse(f"{where}: it has half of a character: a surrogate without its other one",
                                     "cut texts between characters") from None
                    if end is not None and made and made[-1] == end:
                        made.pop()
                    array.array(kind, made).tofile(out)
                    count += len(made)
                if end is not None:
                    array.array(kind, [end]).tofile(out)
                    count += 1
            if count < 2:
                raise refuse(f"'{source}' has no text", "a token is read, and the next one predicted")
            out.seek(0)
            out.write(struct.pack(HEADER, b"ORTOKENS", 1, array.array(kind).itemsize, vocabulary, 0, count))
            out.flush()
            os.fsync(out.fileno())
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(out.name, 0o666 & ~mask)
            os.replace(out.name, target)
        except BaseException:
            os.unlink(out.name)
            raise
    return texts, count
