"""Writes output files: a complete file or none, with tokens that the model has."""

import contextlib
import os
import signal
import sys
import tempfile

from data_lines import Refused


def check_apart(source, target):
    if os.path.exists(target) and os.path.samefile(source, target):
        raise Refused(f"'{target}' is the input file", "give a different output file")


def mask():
    old = os.umask(0)
    os.umask(old)
    return old


@contextlib.contextmanager
def whole_file(target, mode, prefix):
    """A file that gets its name when it is complete. A process that is ended by a signal leaves no file."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with tempfile.NamedTemporaryFile(
        mode, dir=os.path.dirname(os.path.abspath(target)), prefix=prefix, delete=False
    ) as out:
        try:
            yield out
            out.flush()
            os.fsync(out.fileno())
            os.chmod(out.name, 0o666 & ~mask())
            os.replace(out.name, target)
        except BaseException:
            os.unlink(out.name)
            raise


def check_vocabulary(made, tokenizer, vocabulary):
    """Refuses tokens that the model does not have. A tokenizer may have more tokens than the model has rows."""
    largest = max(max(made[name]) for name in ("tokens", "prompt", "chosen", "rejected") if name in made)
    if vocabulary is not None and largest >= vocabulary:
        raise Refused(
            f"token {largest} ({tokenizer.convert_ids_to_tokens(largest)!r}) is outside of the model's vocabulary "
            f"of {vocabulary}",
            "remove it from the text, or enlarge the model's vocabulary (resize_token_embeddings of transformers)",
        )
