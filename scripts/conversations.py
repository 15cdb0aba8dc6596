"""Converts lines that do not contain messages as a list of role and content to this form."""

import json

from data_lines import FORMS, Refused

ROLES = ("system", "developer", "user", "assistant", "tool", "function", "ipython", "environment")
OTHER_NAMES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bard": "assistant", "bing": "assistant",
               "model": "assistant", "observation": "tool"}
THOUGHTS = ("reasoning_content", "reasoning", "thinking")


def is_conversation(value):
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(m, dict) and ("role" in m or "from" in m) for m in value)
    )


def parts_of(content, number):
    """The texts of a content that is a list."""
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str) and part.get("type", "text") == "text":
            texts.append(part["text"])
        else:
            kind = part.get("type", "no type") if isinstance(part, dict) else type(part).__name__
            raise Refused(
                f"message {number} has a part that is not text ({kind})",
                "only text is supported: remove the other parts",
            )
    return texts


def calls_of(text, number):
    """The calls of a tool that are written as JSON."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    calls = found if isinstance(found, list) else [found]
    if not all(isinstance(call, dict) and "name" in call for call in calls):
        raise Refused(f"message {number} is a function call, but its text is not {{\"name\": ..., \"arguments\": ...}}")
    return [{"type": "function", "function": call} for call in calls]


def weight_of(message, number):
    """Whether the message has a loss."""
    weight = message.get("weight")
    if weight is None:
        weight = message.get("train", True)
        if not isinstance(weight, bool):
            raise Refused(f"message {number} has an invalid train: {weight!r}", "it must be true or false")
    if weight not in (0, 1):
        raise Refused(
            f"message {number} has an invalid weight: {weight!r}", "it must be 0 (no loss on this answer) or 1"
        )
    return bool(weight)


def message_of(given, number, notes):
    """{"role", "content"} and the other fields of the message; "content" is text."""
    if not isinstance(given, dict):
        raise Refused(f"message {number} is not an object", 'write {"role": ..., "content": ...}')
    message = {
        name: value
        for name, value in given.items()
        if name not in ("from", "value", "weight", "train", "function_call")
    }
    if call := given.get("function_call"):  # OpenAI's older form of a single call
        if message.get("tool_calls"):
            raise Refused(f"message {number} has both tool_calls and function_call", "keep one of them")
        message["tool_calls"] = calls_of(call if isinstance(call, str) else json.dumps(call), number)
    if "role" not in given and "from" in given:
        notes("conversations with 'from' and 'value', read as messages")
        message["role"], message["content"] = given["from"], given.get("value", given.get("content"))
    if message.get("role") == "function_call":
        message |= {"role": "assistant", "content": "", "tool_calls": calls_of(message["content"], number)}
    role = message.get("role")
    message["role"] = role = OTHER_NAMES.get(role, role) if isinstance(role, str) else role
    if role not in ROLES:
        raise Refused(f"message {number} has an unknown role: {role!r}", "use one of " + ", ".join(ROLES))
    content = message.get("content")
    if isinstance(content, list):
        notes("messages whose content is a list of parts")
        message["content"], message["parts"] = "".join(parts_of(content, number)), content
    elif content is None:
        if not message.get("tool_calls") and not any(message.get(name) for name in THOUGHTS):
            raise Refused(f"message {number} ({role}) has no content", "remove the message, or add its content")
        message["content"] = ""
    elif not isinstance(content, str):
        raise Refused(f"message {number} has content that is not text: {json.dumps(content)[:40]}",
                      'write {"role": ..., "content": "..."}')
    if (
        role == "assistant"
        and not any(message.get(name) for name in ("tool_calls", *THOUGHTS))
        and not message["content"].strip()
    ):
        raise Refused(f"message {number} is an answer without text", "remove the conversation")
    message["learned"] = weight_of(given, number)
    return message


def messages_of(given, notes, before=0):
    return [message_of(message, before + number, notes) for number, message in enumerate(given, 1)]


def alpaca(line, notes):
    """A conversation from instruction, input and output, with system and history if they are given."""
    notes("lines with 'instruction' and 'output', read as a question and its answer")
    asked = "\n\n".join(text for text in (line["instruction"], line.get("input")) if text)
    turns = [*(line.get("history") or []), [asked, line["output"]]]
    if not all(
        isinstance(turn, list) and len(turn) == 2 and all(isinstance(text, str) for text in turn) for turn in turns
    ):
        raise Refused("'instruction', 'input' and 'output' must be texts, and 'history' a list of pairs of texts")
    return [{"role": role, "content": text} for turn in turns for role, text in zip(("user", "assistant"), turn)]


def pretokenized(line):
    """input_ids with labels, in the form that trainers of transformers read: -100 and padding have no loss."""
    ids = line["input_ids"]
    labels, mask = line.get("labels", ids), line.get("attention_mask", [1] * len(ids))
    if not all(isinstance(values, list) and len(values) == len(ids) for values in (labels, mask)):
        raise Refused("'input_ids', 'labels' and 'attention_mask' must be lists of equal length")
    kept = [place for place in range(len(ids)) if mask[place]]
    tokens, learned = [ids[place] for place in kept], [labels[place] for place in kept]
    if any(label not in (-100, token) for label, token in zip(learned, tokens)):
        raise Refused("'labels' differs from 'input_ids'", "a label must be the token at the same position, or -100")
    trained = []
    for place, label in enumerate(learned):
        if label == -100:
            continue
        if trained and trained[-1][1] == place:
            trained[-1][1] = place + 1
        else:
            trained.append([place, place + 1])
    return {"tokens": tokens, "trained": trained}


def tools_of(line):
    name = "functions" if line.get("functions") else "tools"
    tools = line.get(name)
    if isinstance(tools, str):
        try:
            tools = json.loads(tools) if tools.strip() else None
        except ValueError:
            raise Refused(f"'{name}' is text, but not JSON", "write a list of functions, as for transformers") from None
    if tools and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        raise Refused(
            f"'{name}' must be a list of functions",
            'write {"type": "function", "function": {"name": ..., "parameters": {...}}}',
        )
    if tools and name == "functions":  # OpenAI's older form of tools
        if line.get("tools"):
            raise Refused("the line has both 'tools' and 'functions'", "keep one of them")
        tools = [{"type": "function", "function": tool} for tool in tools]
    return tools or None


def options_of(line):
    """The arguments that a line gives to its chat template: the tools, and others."""
    more = line.get("chat_template_kwargs")
    if more is not None and not isinstance(more, dict):
        raise Refused("'chat_template_kwargs' is not an object", FORMS)
    return tools_of(line), more


def with_system(line, messages, notes):
    """The messages, preceded by the text of the line's 'system'."""
    system = line.get("system")
    if not system:
        return messages
    if not isinstance(system, str):
        raise Refused(
            "'system' must be a text",
            'a list of parts can be the content of a message: {"role": "system", "content": [...]}',
        )
    if messages and messages[0]["role"] in ("system", "developer"):
        if messages[0]["content"] == system:
            return messages
        raise Refused("the line has 'system' and a message of the system with another text", "keep one of them")
    return [*messages_of([{"role": "system", "content": system}], notes), *messages]


def conversation_of(line, notes):
    """The messages of a line if it is a conversation; otherwise None."""
    name = next((name for name in ("messages", "conversations", "conversation") if name in line), None)
    if name is None:
        if not ("instruction" in line and isinstance(line.get("output"), str)):
            return None
        given = alpaca(line, notes)
    else:
        given = line[name]
        if not is_conversation(given):
            raise Refused(f"'{name}' must be a list of {{\"role\": ..., \"content\": ...}}")
    return with_system(line, messages_of(given, notes), notes)


def check_texts(line):
    """Refuses fields for a chat template in a line of plain text."""
    for name in ("system", "tools", "functions"):
        if line.get(name):
            raise Refused(
                f"the line has '{name}' beside texts, which no chat template writes",
                "write messages instead of texts, or put it into the prompt",
            )


class Line(dict):
    """A line of a file. It records the fields that were read."""

    def __init__(self, fields):
        super().__init__(fields)
        self.was_read = set()

    def __getitem__(self, name):
        self.was_read.add(name)
        return super().__getitem__(name)

    def get(self, name, otherwise=None):
        self.was_read.add(name)
        return super().get(name, otherwise)

    def unread(self):
        return [name for name, value in self.items() if name not in self.was_read and value not in (None, "", [], {})]


def unknown_form(line):
    fields = ", ".join(f"'{name}'" for name in line) or "no fields"
    return Refused(f"the line has no known form; its fields: {fields}", FORMS)
