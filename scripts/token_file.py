"""Writes texts as one token file (docs/reference/formats.md), for rush.tokens.

A file of JSON objects has one text per line. Any other file, and each file of a folder, is one text. Texts follow one
another. The tokenizer's special tokens are before each text, and its end-of-text token is after it. The header's
vocabulary is the largest token plus one, because a tokenizer may have more tokens than its model.
"""

import array
import os
import struct

import data_lines
from data_lines import Refused
from output_file import check_vocabulary, whole_file

HEADER = "<8sIIIIQ"
PART = 1 << 20  # characters of a long text that are tokenized at a time


def texts_of(source, extensions, notes):
    """(place, text) for each text."""
    if os.path.isdir(source) or not data_lines.is_json(source):
        for path in data_lines.files_of(source, extensions):
            notes.where = path
            if data_lines.is_json(path):
                notes("JSON files in a folder, each read as plain text")
            yield path, data_lines.text_of(path)
        return
    for where, line in data_lines.objects(source):
        if not isinstance(line.get("text"), str):
            raise Refused(f"{where}: the source of a token file must have lines of {{\"text\": \"...\"}}",
                          "leave out --token-file for conversations and pairs")
        yield where, line["text"]


def write(source, target, tokens, extensions=(), vocabulary=None):
    """Writes the file. Returns the numbers of texts and of tokens."""
    tokenizer = tokens.tokenizer
    known = max(len(tokenizer), 1 + max(tokenizer.get_vocab().values(), default=0))
    kind = "H" if known <= 1 << 16 else "I"
    texts = count = largest = 0
    with whole_file(target, "wb", ".tokens-") as out:
        out.write(bytes(struct.calcsize(HEADER)))
        for where, text in texts_of(source, extensions, tokens.notes):
            if not text:
                continue
            tokens.notes.where = where
            try:
                data_lines.check_characters(text)
                made = tokens.long_text(text, PART)
                check_vocabulary({"tokens": made or [0]}, tokenizer, vocabulary)
            except Refused as error:
                raise data_lines.at(where, error) from None
            texts += 1
            if not made:
                continue
            largest = max(largest, *made)
            count += len(made)
            array.array(kind, made).tofile(out)
        if count < 2:
            raise Refused(f"'{source}' has no text", "training needs at least two tokens")
        out.seek(0)
        out.write(struct.pack(HEADER, b"ORTOKENS", 1, array.array(kind).itemsize, largest + 1, 0, count))
    return texts, count
