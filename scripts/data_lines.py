"""Reads the data to tokenize: files of JSON objects, one a line or in one array, and files of text."""

import json
import os

FORMS = """write lines of {"messages": [...]}, {"prompt": ..., "completion": ...}, {"text": "..."} or
        {"prompt": ..., "chosen": ..., "rejected": ...}, where ... is text or a list of messages"""
WORDS = {
    "Expecting value": "a value is missing",
    "Expecting property name enclosed in double quotes": "a name in double quotes is missing",
    "Expecting ':' delimiter":"':' is missing after a name",
    "Expecting ',' delimiter": "',' or a closing bracket is missing",
    "Unterminated string starting at": "this string has no closing quote",
    "Invalid control character at": "a string contains a line break, a tab or another control character",
    "Invalid \\escape": "a backslash precedes a character that JSON does not escape",
    "Invalid \\uXXXX escape": "\\u needs four hexadecimal digits",
    "Extra data": "text follows the object",
    "Illegal trailing comma before end of object": "there is a comma before the closing bracket",
    "Illegal trailing comma before end of array": "there is a comma before the closing bracket",
}


class Refused(Exception):
    """Refused data, with the reason and the remedy."""

    def __init__(self, what, cure=FORMS):
        super().__init__(what)
        self.cure = cure


def without_repeats(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise Refused(
            f"the field '{next(name for name in names if names.count(name) > 1)}' occurs twice", "keep one of them"
        )
    return found


DECODER = json.JSONDecoder(object_pairs_hook=without_repeats)


def broken(error, text, begin=0):
    """The error in JSON, and its place in the line."""
    line_begin = text.rfind("\n", 0, error.pos) + 1
    rest = text[error.pos:].split("\n", 1)[0].strip()
    if not text[error.pos:].strip():
        what = "it ends inside of the object"
    else:
        word = next((WORDS[known] for known in WORDS if error.msg.startswith(known)), error.msg)
        what = f"{word}, at {rest[:20]!r}"
    return Refused(f"this is not valid JSON: column {error.pos - max(line_begin, begin) + 1}: {what}",
                   "write one JSON object per line, as json.dumps does")


def parsed(text, begin=0):
    """The value that begins at `begin`, and its end."""
    try:
        return DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        raise broken(error, text, begin) from None
    except RecursionError:
        raise Refused("the JSON is nested too deeply", "write lines with less nesting") from None
    except ValueError as error:  # a number of thousands of digits
        raise Refused(f"the JSON cannot be read: {error}", "write numbers that fit into 64 bits") from None


def whole_value(line):
    value, end = parsed(line, len(line) - len(line.lstrip(" \t\r\n")))
    if line[end:].strip():
        raise broken(json.JSONDecodeError("Extra data", line, end), line)
    return value


def check_characters(value):
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Refused(
            "it contains half of a character (a lone surrogate)", "split texts between characters only"
        ) from None


def at(where, error):
    return Refused(f"{where}: {error}", error.cure)


def opened(path, newline=None):
    """Opens a file without its byte order mark."""
    return open(path, encoding="utf-8-sig", newline=newline)


def not_utf8(path, error):
    with open(path, "rb") as file:
        begin = file.read(2)
    if begin in (b"\xff\xfe", b"\xfe\xff"):
        return Refused(f"'{path}' is UTF-16", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8")
    return Refused(f"'{path}' is not UTF-8 at byte {error.start} of a part that begins with {error.object[:20]!r}",
                   "convert it to UTF-8")


def elements(text):
    """(number of its line, value) for each element of an array."""
    place, line, counted = text.index("[") + 1, 1, 0
    first = True
    while True:
        while place < len(text) and text[place].isspace():
            place += 1
        if text[place:place + 1] == "]":
            if text[place + 1:].strip():
                raise Refused("more follows the array", "one array of objects, or one object a line")
            return
        if not first:
            if text[place:place + 1] != ",":
                raise Refused(
                    f"line {line + text.count(chr(10), counted, place)}: the array is not closed, or ',' is missing",
                    "one array of objects, or one object a line",
                )
            place += 1
            while place < len(text) and text[place].isspace():
                place += 1
        line, counted = line + text.count("\n", counted, place), place
        try:
            value, place = parsed(text, place)
        except Refused as error:
            raise Refused(f"line {line}: {error}", error.cure) from None
        yield line, value
        first = False


def objects(path):
    """(place, object) for a file with one object a line, or with one array of objects."""
    try:
        with opened(path) as file:
            begin = file.read(1)
            while begin.isspace():
                begin = file.read(1)
        # A carriage return alone ends no line, as in rush.documents.
        with opened(path, newline="\n") as file:
            if begin == "[":
                found = elements(file.read())
            else:
                found = ((number, line) for number, line in enumerate(file, 1) if line.strip())
            while True:
                try:
                    number, value = next(found)
                except StopIteration:
                    return
                except Refused as error:
                    raise at(path, error) from None
                where = f"{path}:{number}"
                try:
                    value = whole_value(value) if begin != "[" else value
                    if not isinstance(value, dict):
                        raise Refused("a line is a JSON object")
                    check_characters(value)
                except Refused as error:
                    raise at(where, error) from None
                yield where, value
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from None


def text_of(path):
    """The whole text, with its line ends unchanged."""
    try:
        with opened(path, newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from None


def files_of(source, extensions=()):
    """A file, or the files of a folder with these extensions, in the order of their paths."""
    if not os.path.isdir(source):
        return [source]
    paths = (os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names)
    return sorted(
        path for path in paths if os.path.isfile(path) and (not extensions or os.path.splitext(path)[1] in extensions)
    )


def is_json(path):
    return os.path.splitext(path)[1].lower() in (".jsonl", ".json", ".ndjson")
