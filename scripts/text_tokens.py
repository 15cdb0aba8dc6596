"""Converts texts to tokens by the tokenizer of a Hugging Face folder, or tokens to texts.

usage: text_tokens.py FOLDER QUESTION ANSWER

The question is {"texts": [...]} or {"tokens": [[...], ...]}. The answer is the other one, with the end-of-text token.
"""

import json
import pathlib
import sys


def main(folder, question, answer):
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        sys.exit(str(error))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked = json.loads(pathlib.Path(question).read_text(encoding="utf-8"))
    said = {"end": -1 if tokenizer.eos_token_id is None else tokenizer.eos_token_id}
    if "texts" in asked:
        said["tokens"] = [list(tokenizer(text)["input_ids"]) for text in asked["texts"]]
        for tokens in said["tokens"]:  # an end-of-text token would end the prompt
            if tokens and tokens[-1] == said["end"]:
                tokens.pop()
    else:
        said["texts"] = [tokenizer.decode(tokens, skip_special_tokens=True) for tokens in asked["tokens"]]
    pathlib.Path(answer).write_text(json.dumps(said), encoding="utf-8")


main(*sys.argv[1:])
