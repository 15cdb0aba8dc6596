"""Converts documents and pairs to a model's tokens, with its tokenizer and its chat template."""

import re

from chat_template import ChatTemplate, said
from conversations import (
    Line,
    check_texts,
    conversation_of,
    is_conversation,
    messages_of,
    options_of,
    pretokenized,
    unknown_form,
    with_system,
)
from data_lines import Refused

# Control tokens among those that a tokenizer adds without calling them special: <|fim_prefix|>, <tool_call>.
MARK = re.compile(r"[<\[]\S*[|_]\S*[>\]]")
AGREED = 32  # number of equal consecutive tokens at which two parts of a text are joined
LOST = {
    ("thought", True): "thoughts of trained answers",
    ("content", True): "texts of trained answers",
    ("call", True): "tool calls of trained answers",
    ("thought", False): "thoughts of earlier answers",
    ("content", False): "texts of earlier answers",
    ("call", False): "tool calls of earlier answers",
    ("tools", False): "tool definitions",
}


def common(first, second):
    """The number of equal elements at the beginning of two lists."""
    return next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))


class Texts:
    """Converts texts to lists of tokens with a tokenizer."""

    def __init__(self, tokenizer, notes):
        self.tokenizer, self.notes = tokenizer, notes
        self.end = tokenizer.eos_token_id
        added = tokenizer.added_tokens_decoder
        self.special = set(tokenizer.all_special_ids) | {number for number, token in added.items() if token.special}
        # Special tokens that the tokenizer adds around a text.
        alone, framed = self.ids("a", add_special_tokens=False), self.ids("a")
        place = next((i for i in range(len(framed)) if framed[i:i + len(alone)] == alone), 0)
        self.begin, self.close = framed[:place], framed[place + len(alone):]
        unknown = tokenizer.unk_token_id
        self.unknown = None if unknown in (tokenizer.eos_token_id, tokenizer.bos_token_id) else unknown
        self.control = self.special | {number for number, token in added.items() if MARK.fullmatch(token.content)}
        self.control.discard(self.unknown)
        marks = tokenizer.convert_ids_to_tokens(sorted(self.control))
        self.marks = [mark for mark in marks if len(mark) > 2]

    def ids(self, text, **options):
        return list(self.tokenizer(text, **options)["input_ids"])

    def seen(self, tokens):
        if self.unknown is not None and self.unknown in tokens:
            self.notes(f"lines with text unknown to the tokenizer ({self.tokenizer.unk_token})")
        return tokens

    def without_marks(self, tokens):
        """The tokens of a text. A control token in them was written as text."""
        if not self.control.isdisjoint(tokens):
            self.notes("texts that contain control tokens of the tokenizer, which are tokenized as control tokens")
        return tokens

    def framed(self, tokens, ends=True):
        """Adds the tokenizer's special tokens before a text and its end-of-text token after it, unless the text already
        has them."""
        begin, close = self.begin, self.close
        if begin and tokens[:2 * len(begin)] == begin * 2:
            self.notes(
                f"texts that start with the tokenizer's start token ({self.tokenizer.decode(begin)}), which is not "
                "added again"
            )
            tokens = tokens[len(begin):]
        if close and tokens[-len(close):] == close:
            tokens = tokens[:-len(close)]
        own = tokens[len(begin):] if tokens[:len(begin)] == begin else tokens
        self.without_marks(own[:-1] if own[-1:] == [self.end] else own)
        if ends and self.end is None:
            self.notes("texts without an end token: the tokenizer has none")
        elif ends and tokens[-1:] != [self.end]:
            tokens = [*tokens, *(token for token in close if token != self.end), self.end]
        return self.seen(tokens)

    def text(self, text, ends=True):
        return self.framed(self.ids(text), ends)

    def long_text(self, text, most=1 << 20):
        """text() for a text of any length. Texts longer than `most` characters are tokenized in overlapping parts,
        which are joined at a place where both have the same tokens for a while."""
        if len(text) <= most or not self.tokenizer.is_fast:
            return self.text(text)
        done, held, begin, at, overlap = [], [], 0, 0, most // 16
        while at < len(text):
            end = min(begin + most, len(text))
            part = self.tokenizer(text[begin:end], add_special_tokens=False, return_offsets_mapping=True)
            places = [(begin + start, number) for (start, _), number in zip(part["offset_mapping"], part["input_ids"])]
            cut = self.agreement(held, places, begin, at) if held else (0, 0)
            if cut is None:  # no common run of tokens: more of both
                overlap *= 2
                if overlap >= most:
                    return self.text(text)
            else:
                done += [number for _, number in held[:cut[0]]]
                held, at, overlap = places[cut[1]:], end, most // 16
            begin = at - overlap
        return self.framed([*self.begin, *done, *(number for _, number in held), *self.close])

    @staticmethod
    def agreement(before, after, begin, end):
        """The places in two lists of (place in the text, token) at which they are joined: in the middle of the longest
        run of equal entries."""
        first = len(before)
        while first > 0 and before[first - 1][0] >= begin:
            first -= 1
        position = {}
        for i, entry in enumerate(after):
            if entry[0] >= end:
                break
            position.setdefault(entry, i)
        best, run, last = (0, None), 0, None
        for i in range(first, len(before)):
            j = position.get(before[i])
            run = run + 1 if j is not None and last is not None and j == last + 1 else int(j is not None)
            last = j
            if run > best[0]:
                best = run, (i - run // 2, j - run // 2)
        return best[1] if best[0] >= AGREED else None


class Tokens(Texts):
    """A line as tokens, with the parts that have a loss."""

    def __init__(self, tokenizer, notes, losses, turns="all", template=None, arguments=None, date=None):
        super().__init__(tokenizer, notes)
        self.losses, self.turns = losses, turns
        self.template = ChatTemplate(tokenizer, template, arguments, date)

    def chat(self, messages, tools=None, more=None, asks=False):
        return self.ids(self.template.written(messages, tools, asks, more), add_special_tokens=False)

    def begins(self, shorter, whole):
        """Whether a conversation begins like its first messages alone. Some templates end every chat like a text, and a
        token may merge with the following text."""
        ended = bool(shorter) and shorter[-1] == self.end
        return common(shorter, whole) >= len(shorter) - ended - (0 if shorter and shorter[-1] in self.special else 1)

    def asked(self, before, tools, more, wholes):
        """The number of tokens of each of these conversations before the answer to their first messages."""
        asking = self.chat(before, tools, more, asks=True)
        if not all(self.begins(self.chat(before, tools, more), whole) for whole in wholes):
            raise Refused(
                f"the chat template changes the messages before message {len(before) + 1} when that message follows",
                "the answer has no separate span: use a template that keeps earlier messages unchanged, or move "
                "system text into a separate message",
            )
        # The common prefix may end inside the template's text before an answer, because tokens merge there.
        return min(common(asking, whole) for whole in wholes)

    def turn(self, messages, place, whole, tools, more):
        """[begin, end) of a turn of the assistant in the tokens of the whole conversation."""
        until = self.chat(messages[:place + 1], tools, more)
        if not self.begins(until, whole):
            raise Refused(f"the chat template changes turn {place + 1} when later turns follow",
                          "use --turns each (one conversation per answer) or --turns last (only the last answer "
                          "is trained)" if self.turns == "all"
                          else "split the conversation, so that each trained answer is the last message")
        begin, end = self.asked(messages[:place], tools, more, [whole]), common(until, whole)
        end = self.end_of_turn(whole, begin, end)
        if begin >= end:
            raise Refused(f"turn {place + 1} has no tokens to train on")
        return [begin, end]

    def end_of_turn(self, whole, begin, end):
        """The end of a turn in the tokens of a conversation, without white space that some templates add after the
        turn's last token. A model need not produce it."""
        last = max((i for i in range(begin, end) if whole[i] in self.special), default=end)
        if not self.tokenizer.decode(whole[last + 1:end]).strip():
            end = min(last + 1, end)
        if begin < end and whole[end - 1] not in self.special:
            self.notes("answers without a special end token in the chat template: the model does not learn to stop")
        return end

    def fitted(self, messages, tools, more, learned):
        """The messages in the form that the template accepts. Content that it leaves out is counted."""
        self.template.clock.was_read = False
        form, lost = self.template.fitting(messages, tools, more)
        for number, kind, text in lost:
            learns, answers = number - 1 in learned, number > 0 and messages[number - 1]["role"] == "assistant"
            says = (
                LOST[kind, learns] if answers or kind == "tools" else f"messages of the {messages[number - 1]['role']}"
            )
            self.losses(says, text, learns, usual=answers and not learns, last=number - 1 == max(learned))
        if self.template.clock.shows_today():
            self.notes(
                "conversations in which the chat template writes today's date (--date 2024-07-26 sets another one)"
            )
        for name in self.template.unwritten_fields(form, tools, more):
            self.notes(f"conversations whose messages have the field '{name}', which the chat template does not write")
        if any(mark in text for message in messages for _, text in said(message) for mark in self.marks):
            self.notes(
                "conversations whose texts contain control tokens of the tokenizer, which are tokenized as control "
                "tokens"
            )
        return form

    def conversation(self, messages, tools, more=None, first=0):
        """[document]: the whole conversation, with a loss on the assistant's turns from message `first` on, each of
        which is an answer to the messages before it; or a document for each of these answers, which ends with it."""
        answers = [i for i in range(max(first, 1), len(messages)) if messages[i]["role"] == "assistant"]
        if not answers:
            raise Refused("there is no assistant answer to train on")
        places = [i for i in answers if messages[i]["learned"]]
        if len(places) < len(answers):
            self.notes("conversations with answers of weight 0, which have no loss")
        if not places:
            self.notes("skipped conversations: all of their answers have weight 0")
            return []
        if answers[-1] < len(messages) - 1:
            self.notes("conversations that end without an answer")
        if self.turns == "each":
            made = [self.learned(messages[:place + 1], [place], tools, more) for place in places]
        else:
            made = [self.learned(messages, places if self.turns == "all" else places[-1:], tools, more)]
        return [document for document in made if document]

    def learned(self, messages, places, tools, more):
        messages = self.fitted(messages, tools, more, places)
        if self.losses.fatal:
            return None  # the file is refused and nothing is written
        whole = self.seen(self.chat(messages, tools, more))
        return {"tokens": whole, "trained": [self.turn(messages, place, whole, tools, more) for place in places]}

    def completion(self, line):
        prompt, completion = line["prompt"], line.get("completion")
        if any(name == "label" and isinstance(value, bool) for name, value in line.items()):
            raise Refused(
                "lines with 'label' are not supported: training on unwanted completions would teach them",
                "give pairs of 'chosen' and 'rejected' for rush.preferences, or keep only the wanted lines, without "
                "'label'",
            )
        if is_conversation(prompt) and is_conversation(completion):
            answer = messages_of(completion, self.notes, len(prompt))
            prompt = with_system(line, messages_of(prompt, self.notes), self.notes)
            return self.conversation(prompt + answer, *options_of(line), first=len(prompt))
        if completion is None:
            raise unknown_form(line)
        if not isinstance(prompt, str) or not isinstance(completion, str):
            raise Refused("'prompt' and 'completion' must be two texts or two lists of messages")
        if not completion:
            raise Refused("'completion' is empty")
        check_texts(line)
        whole = self.text(prompt + completion)
        return [{"tokens": whole, "prompt_tokens": common(self.quiet_text(prompt), whole)}]

    def quiet_text(self, text):
        """The tokens of text() without notes, for the beginning of a text that is counted elsewhere."""
        notes, self.notes = self.notes, lambda what: None
        tokens = self.text(text, ends=False)
        self.notes = notes
        return tokens

    def preference(self, line):
        prompt, chosen, rejected = parts = [line.get(name) for name in ("prompt", "chosen", "rejected")]
        if all(isinstance(part, list) and part and isinstance(part[0], int) for part in parts):
            return [{"prompt": prompt, "chosen": chosen, "rejected": rejected}]
        if chosen is not None and chosen == rejected:
            raise Refused("'chosen' and 'rejected' are equal", "remove the pair")
        if is_conversation(chosen) and is_conversation(rejected):
            chosen, rejected = messages_of(chosen, self.notes), messages_of(rejected, self.notes)
            if isinstance(prompt, str) and all(answer[0]["content"] == prompt for answer in (chosen, rejected)):
                prompt = None
            if prompt is None:  # the prompt is the common prefix
                shared = common(chosen, rejected)
                prompt, chosen, rejected = chosen[:shared], chosen[shared:], rejected[shared:]
            elif is_conversation(prompt):
                prompt = messages_of(prompt, self.notes)
            elif isinstance(prompt, str):
                prompt = messages_of([{"role": "user", "content": prompt}], self.notes)
            else:
                raise Refused("'prompt' must be a text or a list of messages where the answers are messages")
            answers, given = self.answers(with_system(line, prompt, self.notes), (chosen, rejected), *options_of(line))
        elif all(isinstance(part, str) and part for part in (prompt, chosen, rejected)):
            check_texts(line)
            answers = [self.text(prompt + answer) for answer in (chosen, rejected)]
            asked = self.quiet_text(prompt)
            given = min(common(asked, answer) for answer in answers)
        else:
            raise Refused("'prompt', 'chosen' and 'rejected' must be three texts or three lists of messages")
        if answers is None:
            return []
        if given == 0 or any(len(answer) == given for answer in answers):
            raise Refused("a pair has a prompt and two answers")
        if answers[0] == answers[1]:
            raise Refused("'chosen' and 'rejected' have the same tokens", "remove the pair")
        return [{"prompt": answers[0][:given], "chosen": answers[0][given:], "rejected": answers[1][given:]}]

    def answers(self, prompt, pair, tools, more):
        """The tokens of two conversations, and the number of them in the prompt."""
        if not prompt or not all(pair):
            raise Refused("a pair has a prompt and two answers")
        whole = []
        for answer in pair:
            if answer[0]["role"] != "assistant" or any(
                message["role"] not in ("assistant", "tool") for message in answer
            ):
                raise Refused("an answer contains messages that are not from the assistant",
                              "move user messages into the prompt, which is the same for both answers")
            if not all(message["learned"] for message in answer):
                raise Refused("an answer of a pair has weight 0", "the loss needs both answers: remove the pair")
            learned = [len(prompt) + i for i, message in enumerate(answer) if message["role"] == "assistant"]
            whole.append(self.fitted(prompt + answer, tools, more, learned))
        if self.losses.fatal:
            return None, 0
        tokens = [self.seen(self.chat(messages, tools, more)) for messages in whole]
        given = self.asked(whole[0][:len(prompt)], tools, more, tokens)
        return [answer[:self.end_of_turn(answer, given, len(answer))] for answer in tokens], given

    def documents(self, line):
        if isinstance(line.get("tokens"), list):
            return [{name: line[name] for name in ("tokens", "prompt_tokens", "trained") if name in line}]
        messages = conversation_of(line, self.notes)
        if messages is not None:
            return self.conversation(messages, *options_of(line))
        if "prompt" in line:
            return self.completion(line)
        if isinstance(line.get("text"), str):
            if not line["text"]:
                raise Refused("'text' is empty", "remove the line")
            return [{"tokens": self.text(line["text"])}]
        if isinstance(line.get("input_ids"), list):
            return [pretokenized(line)]
        raise unknown_form(line)

    def line(self, line):
        """[{"tokens", ...}] or [{"prompt", "chosen", "rejected"}]; empty: the line is left out, which is counted."""
        line = Line(line)
        if "chosen" in line or "rejected" in line:
            made = self.preference(line)
        else:
            made = self.documents(line)
            if any(len(document["tokens"]) < 2 for document in made):
                raise Refused("the line has only one token; training needs at least two")
        for name in line.unread():
            self.notes(f"lines with the field '{name}', which is not read")
        return made
