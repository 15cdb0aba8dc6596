"""The places where a C++ source can be changed, and the changes: an operator, constant, condition or statement each."""
import re
from dataclasses import dataclass

import tree_sitter_cpp
from tree_sitter import Language, Parser

PARSER = Parser(Language(tree_sitter_cpp.language()))

# {operator: (kind of change, replacements)}
OPERATORS = {
    "<": ("relation", ("<=", ">=")), "<=": ("relation", ("<", ">")), ">": ("relation", (">=", "<=")),
    ">=": ("relation", (">", "<")), "==": ("relation", ("!=",)), "!=": ("relation", ("==", "<")),
    "+": ("arithmetic", ("-",)), "-": ("arithmetic", ("+",)), "*": ("arithmetic", ("/",)), "/": ("arithmetic", ("*",)),
    "%": ("arithmetic", ("*",)), "<<": ("arithmetic", (">>",)), ">>": ("arithmetic", ("<<",)),
    "|": ("arithmetic", ("&",)),
    "&": ("arithmetic", ("|",)), "&&": ("logic", ("||",)), "||": ("logic", ("&&",)),
    "+=": ("arithmetic", ("-=",)), "-=": ("arithmetic", ("+=",)), "*=": ("arithmetic", ("/=",)),
    "/=": ("arithmetic", ("*=",)),
    "|=": ("arithmetic", ("&=",)), "&=": ("arithmetic", ("|=",)),
}
OPPOSITE = {"std::min": "std::max", "std::max": "std::min"}
# A value that the compiler needs cannot be chosen at run time.
COMPILE_TIME = {"static_assert_declaration", "template_argument_list", "template_parameter_list", "enumerator",
                "sizeof_expression", "decltype", "noexcept", "alignas_qualifier", "requires_clause",
                "attribute_declaration", "array_declarator", "bitfield_clause", "preproc_def", "preproc_function_def",
                "preproc_include", "preproc_call", "ERROR"}
TEXTS = {"string_literal", "concatenated_string", "raw_string_literal"}
LOGGING = re.compile(r"(spdlog|log)::|assert\(|static_cast<void>|\(void\)")


@dataclass(frozen=True)
class Site:
    """Bytes begin..end of a source. `text` replaces `original`, with %d for the mutant's number.

    `mutated` is the form for people.
    """

    begin: int
    end: int
    line: int
    kind: str
    original: str
    mutated: str
    text: str
    constant: tuple | None = None  # (begin, end, replacement) of a `constexpr` that must go


def sites(source: bytes):
    """All sites of a source in the order of the text, one for each change."""
    nodes = _walk(PARSER.parse(source).root_node)
    return [site for node in nodes for site in _changes(source, node) if _one_line(site)]


def mutated_source(source: bytes, path, header, chosen):
    """The source at `path` with {number: site}. Lines keep their numbers; warnings are off, as in a system header."""
    edits = [(site.begin, site.end, site.text % number) for number, site in chosen.items()]
    edits += {(*site.constant[:2], site.constant[2]) for site in chosen.values() if site.constant}
    for begin, end, text in sorted(edits, reverse=True):
        source = source[:begin] + text.encode() + source[end:]
    return f'#include "{header}"\n# 1 "{path}" 3\n'.encode() + source


def _walk(node):
    if node.type in COMPILE_TIME:
        return
    yield node
    for index, child in enumerate(node.children):
        field = node.field_name_for_child(index)
        if node.type in ("preproc_if", "preproc_elif") and field == "condition":
            continue
        if node.type == "case_statement" and field == "value":
            continue
        if node.type == "if_statement" and field == "condition" and any(c.type == "constexpr" for c in node.children):
            continue
        if node.type == "expression_statement" and LOGGING.match(node.text.decode()):
            continue
        yield from _walk(child)


def _changes(source, node):
    text = node.text.decode()
    if node.type in ("binary_expression", "assignment_expression"):
        operator = node.child_by_field_name("operator")
        kind, others = OPERATORS.get(operator.text.decode(), ("", ()))
        left = source[node.start_byte:operator.start_byte].decode()
        right = source[operator.end_byte:node.end_byte].decode()
        if kind == "arithmetic" and any(child.type in TEXTS for child in node.named_children):
            return  # concatenated texts have no other operator
        for other in others:
            yield _choice(node, kind, f"{left}{other}{right}")
    elif node.type == "unary_expression" and text.startswith("!"):
        yield _choice(node, "condition", node.child_by_field_name("argument").text.decode())
    elif node.type == "condition_clause" and (value := node.child_by_field_name("value")) is not None:
        if value.type not in ("declaration", "init_statement", "condition_declaration") and node.named_child_count == 1:
            yield _choice(value, "condition", f"!({value.text.decode()})")
    elif node.type == "conditional_expression":
        condition = node.child_by_field_name("condition")
        yield _choice(condition, "condition", f"!({condition.text.decode()})")
    elif node.type == "number_literal":
        for other in _other_numbers(text):
            yield _choice(node, "constant", other)
    elif node.type in ("true", "false"):
        yield _choice(node, "true/false", "false" if text == "true" else "true")
    elif node.type == "call_expression" and (name := node.child_by_field_name("function").text.decode()) in OPPOSITE:
        yield _choice(node, "min/max", OPPOSITE[name] + text[len(name):])
    elif node.type == "expression_statement" and node.named_child_count == 1 and not LOGGING.match(text):
        if node.named_children[0].type in ("call_expression", "assignment_expression"):
            yield _site(node, "left out", "", "{ if (!::optrush_mutant(%d)) " + _escaped(text) + " }")
    elif node.type in ("break_statement", "continue_statement"):
        other = "continue;" if text == "break;" else "break;"
        yield _site(node, "break/continue", other, f"{{ if (::optrush_mutant(%d)) {other} else {text} }}")


def _other_numbers(text):
    digits = text.replace("'", "").rstrip("uUlLfFzZ")
    try:
        value = float.fromhex(digits) if digits.lower().startswith("0x") else float(digits)
    except ValueError:
        return []
    if "." in digits or ("e" in digits.lower() and not digits.lower().startswith("0x")):
        return [f"(2 * {text})"] if value else ["1.0"]
    return ["1"] if value == 0 else ["0", "2"] if value == 1 else [f"({text} + 1)", f"({text} - 1)", f"(2 * {text})"]


def _choice(node, kind, mutated):
    flat = " ".join(mutated.split())
    return _site(node, kind, flat, f"(::optrush_mutant(%d) ? ({_escaped(flat)}) : ({_escaped(node.text.decode())}))")


def _site(node, kind, mutated, text):
    return Site(node.start_byte, node.end_byte, node.start_point.row + 1, kind, node.text.decode(), mutated, text,
                _constant(node))


def _escaped(text):
    return text.replace("%", "%%")


def _constant(node):
    """A mutant is not a constant expression: the declaration around it becomes `const`, a function `inline`."""
    while node is not None:
        if node.type in ("declaration", "function_definition", "field_declaration"):
            for child in node.children:
                if child.text == b"constexpr":
                    return child.start_byte, child.end_byte, "inline" if node.type == "function_definition" else "const"
        node = node.parent
    return None


def _one_line(site):
    """The changed form is one line, so it must not have a comment or a raw string."""
    return "\n" not in site.original or ("//" not in site.original and 'R"' not in site.original)
