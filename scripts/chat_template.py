"""A model's chat template, and the content of a conversation that it leaves out.

Every text of the messages is searched in the text that the template writes: contents, thoughts, calls of tools and the
tools themselves. A text counts as present if it occurs as often as in the messages, in addition to the template's own
text.
"""

import datetime
import json
import sys

from conversations import THOUGHTS
from data_lines import Refused

PLACEHOLDER = "\ue000"
KNOWN_FIELDS = {"role", "content", "parts", "learned", "tool_calls", "tool_call_id", "id", "name", *THOUGHTS}


def leaves(value):
    """The texts and numbers in the arguments of a call."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, bool) or value is None:
        return []
    return [value if isinstance(value, str) else json.dumps(value)]


def function_of(call):
    return call.get("function", call) if isinstance(call, dict) else {}


def as_object(arguments):
    """The arguments of a call as an object. OpenAI writes them as JSON text, and templates read an object."""
    if isinstance(arguments, str):
        try:
            return json.loads(arguments)
        except ValueError:
            return arguments
    return arguments


def said(message):
    """The content of a message: [(kind, text)]."""
    content, found = message["content"], []
    if message["role"] == "assistant":
        found += [("thought", message[name]) for name in THOUGHTS if isinstance(message.get(name), str)]
        if "</think>" in content:
            thought, content = content.split("</think>", 1)
            found.append(("thought", thought.replace("<think>", "", 1)))
        for call in message.get("tool_calls") or []:
            function = function_of(call)
            found += [
                ("call", text) for text in [function.get("name", ""), *leaves(as_object(function.get("arguments")))]
            ]
    return [(kind, text.strip()) for kind, text in [*found, ("content", content)] if text.strip()]


def said_by_tools(tools):
    return [("tools", name) for name in (function_of(tool).get("name", "") for tool in tools or []) if name]


def mapped_call(call, change):
    function = function_of(call)
    new = {**function, **change(function)}
    return {**call, "function": new} if "function" in call else new


def as_json(arguments):
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def with_arguments(messages, form):
    """The messages, with the arguments of their calls in this form."""
    def change(function):
        return {"arguments": form(function.get("arguments"))}

    return [
        (
            {**message, "tool_calls": [mapped_call(call, change) for call in message["tool_calls"]]}
            if message.get("tool_calls")
            else message
        )
        for message in messages
    ]


def skeleton_of(message):
    """The same message with placeholders for its texts."""
    in_parts = isinstance(message["content"], list)
    new = {**message, "content": [{"type": "text", "text": PLACEHOLDER}] if in_parts else PLACEHOLDER}
    for name in THOUGHTS:
        if isinstance(message.get(name), str):
            new[name] = PLACEHOLDER
    if message.get("tool_calls"):
        silent = {"name": PLACEHOLDER, "arguments": {}}
        new["tool_calls"] = [mapped_call(call, lambda function: silent) for call in message["tool_calls"]]
    return new


def spellings(text):
    """The text itself, and its form in JSON."""
    return {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}


def times(text, where):
    return max(where.count(spelling) for spelling in spellings(text))


class Clock:
    """The time for templates: transformers reads it when a template calls strftime_now."""

    def __init__(self, date):
        self.date, self.was_read = date, False
        from transformers.utils import chat_template_utils
        if hasattr(chat_template_utils, "datetime"):
            chat_template_utils.datetime = self

    def now(self):
        self.was_read = True
        return self.date or datetime.datetime.now()

    def shows_today(self):
        return self.was_read and self.date is None


class ChatTemplate:
    """Writes conversations by the tokenizer's template, or by another one (`text`)."""

    def __init__(self, tokenizer, text=None, arguments=None, date=None):
        self.tokenizer, self.text = tokenizer, text
        self.arguments, self.clock = arguments or {}, Clock(date)
        self.skeletons = {}

    def written(self, messages, tools, asks=False, more=None):
        """`asks`: with the text that the template puts before an answer."""
        if not self.text and not self.tokenizer.chat_template:
            raise Refused("the tokenizer has no chat template",
                          "use the folder of a model that was tuned for chats, give a template with --chat-template, "
                          "or give prompt and completion as text")
        try:
            return self.tokenizer.apply_chat_template(
                messages,
                tools=tools,
                tokenize=False,
                add_generation_prompt=asks,
                **({"chat_template": self.text} if self.text else {}),
                **{**self.arguments, **(more or {})},
            )
        except ImportError as error:
            raise Refused(
                f"the chat template cannot be read: {error}", f"{sys.executable} -m pip install jinja2"
            ) from None
        except Exception as error:  # a template may raise any exception
            raise Refused(
                f"the chat template refuses the conversation: {error}",
                "check the roles and their order against the model's template",
            ) from None

    @staticmethod
    def forms(messages):
        """The forms in which templates accept messages: most accept contents as text, some as a list of parts; most
        accept arguments of calls as an object, some as JSON text."""
        yield with_arguments(messages, as_object)
        if any(message.get("tool_calls") for message in messages):
            yield with_arguments(messages, as_json)
        if any("parts" in message for message in messages):
            yield [
                {**message, "content": message.get("parts", [{"type": "text", "text": message["content"]}])}
                for message in messages
            ]

    def fitting(self, messages, tools, more=None):
        """The form of the messages that the template accepts, and the content that it leaves out: [(number of the
        message, kind, text)], with number 0 for the tools."""
        best = refused = None
        for form in self.forms(messages):
            try:
                lost = self.lost(form, messages, tools, more)
            except Refused as error:
                refused = refused or error
                continue
            if best is None or len(lost) < len(best[1]):
                best = form, lost
            if not lost:
                break
        if best is None:
            raise refused
        return best

    def lost(self, form, messages, tools, more):
        text, own = self.written(form, tools, more=more), self.skeleton(form, tools, more)
        pieces = [(0, *piece) for piece in said_by_tools(tools)]
        pieces += [(number, *piece) for number, message in enumerate(messages, 1) for piece in said(message)]

        def wanted(piece):
            return own.count(piece) + sum(other.count(piece) for _, _, other in pieces)

        missing = [each for each in pieces if times(each[2], text) < wanted(each[2])]
        said_once = [other for _, _, other in pieces]
        return [
            (number, kind, piece)
            for number, kind, piece in missing
            if kind != "content"
            or sum(piece in other for other in said_once) == 1
            or not self.writes(form, number - 1, tools, more)
        ]

    def unwritten_fields(self, form, tools, more):
        """Fields that no known template reads, if their texts are missing in the text that this template writes."""
        found = {name: value for message in form for name, value in message.items()
                 if name not in KNOWN_FIELDS and isinstance(value, str) and value.strip()}
        text = self.written(form, tools, more=more) if found else ""
        return [name for name, value in found.items() if not times(value.strip(), text)]

    def writes(self, form, place, tools, more):
        """Whether the template writes this message, even if another message has the same text."""
        marked = [*form[:place], skeleton_of(form[place]), *form[place + 1:]]
        return PLACEHOLDER in self.written(marked, tools, more=more)

    def skeleton(self, form, tools, more):
        """The text that the template writes around messages like these."""
        messages = [
            (message["role"], [name for name in message if message[name]], len(message.get("tool_calls") or []))
            for message in form
        ]
        shape = json.dumps([messages, len(tools or []), more], default=str)
        if shape not in self.skeletons:
            silent = [mapped_call(tool, lambda function: {"name": PLACEHOLDER}) for tool in tools or []] or None
            try:
                self.skeletons[shape] = self.written([skeleton_of(message) for message in form], silent, more=more)
            except Refused:
                self.skeletons[shape] = ""
        return self.skeletons[shape]
