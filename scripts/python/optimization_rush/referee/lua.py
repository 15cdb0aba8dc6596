"""Experiment scripts: the champion as a base, and the challenger as a rung on it."""
import json
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional

from .rounds import LEAD
from .session import Champion

NAME = "tries"  # of every experiment, so reports are in DIR/tries/


def literal(value: Any) -> str:
    """JSON as Lua."""
    if value is None:
        return "nil"
    if isinstance(value, str):
        return re.sub(r"\\u([0-9a-f]{4})", r"\\u{\1}", json.dumps(value, ensure_ascii=False))
    if isinstance(value, dict):
        return "{ " + ", ".join(f"[{literal(key)}] = {literal(each)}" for key, each in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "{ " + ", ".join(map(literal, value)) + " }"
    return json.dumps(value)


def _model(kind: str, fields: Dict[str, Any]) -> str:
    if "checkpoint" in fields:
        return f"rush.checkpoint({literal(fields['checkpoint'])})"
    if kind == "llama":
        return f"rush.llama({literal(fields)})"
    rest = {key: value for key, value in fields.items() if key != "op"}
    return f"rush.{kind}({literal(fields['op'])}, {literal(rest)})"


def _data(data: Dict[str, Any]) -> str:
    if data["kind"] == "random":
        return "rush.random()"
    if data["kind"] == "tokens":
        return f"rush.tokens({literal(data['path'])})"
    options = f", {{ extensions = {literal(data['extensions'])} }}" if data["extensions"] else ""
    return f"rush.{data['kind']}({literal(data['path'])}{options})"


def command(external: Dict[str, Any]) -> List[str]:
    """The command of a program after the changes of its rungs."""
    words, args = list(external["command"]), []
    for change in external.get("changes", []):
        words = change["command"] or words
        args += change["args"]
    return [*words, *args]


def _plugins(spec: Dict[str, Any]) -> str:
    return literal([[use["name"], use["options"]] if use["options"] else [use["name"]] for use in spec["plugins"]])


class ByLoss(NamedTuple):
    """Rounds that train to a loss, each with another seed."""
    target: float
    seeds: List[int]


def _settings(spec: Dict[str, Any], timeout: float, by_loss: Optional[ByLoss]) -> List[str]:
    """The settings that a base and a rung have in common. Seeds belong to rounds."""
    train = {key: value for key, value in spec["train"].items() if key != "seed"} if by_loss else spec["train"]
    lines = [f"env = {literal(spec['env'])}", f"device = {literal(spec['device'])}",
             f"threads = {spec['threads']}", f"timeout = {min(timeout, spec['timeout_s'])}"]
    if spec["model_kind"] == "program":
        keys = ["world_size", "micro_batch", "accumulation", "seq_len", "steps", "warmup", "seed"]
        lines.append("train = " + literal({key: train[key] for key in keys if key in train}))
        return lines
    lines += [f"model = {_model(spec['model_kind'], spec['model'])}", f"train = {literal(train)}",
              f"plugins = {_plugins(spec)}"]
    if spec["model_kind"] == "llama":
        lines.append(f"data = {_data(spec['data'])}")
    return lines


def _base(champion: Champion, timeout: float, by_loss: Optional[ByLoss]) -> str:
    spec, external = champion.spec, champion.external
    lines = [f"name = {literal(NAME)}", *_settings(spec, timeout, by_loss)]
    if external:
        program = {"command": command(external), "interleave": external["interleave"], "effect": external["effect"]}
        for key in ("preload", "requirements", "packages"):
            if external[key]:
                program[key] = external[key]
        lines.append(f"program = {literal(program)}")
    if by_loss:
        lines += [f"seeds = {literal(by_loss.seeds)}", f"target_loss = {by_loss.target!r}", f"stop_behind = {LEAD}"]
    if spec["validate"]["every"]:
        validate = spec["validate"]
        held_out = validate["data"]["kind"] == "held_out"
        fields = [f"{key} = {literal(validate[key])}" for key in ("every", "sequences", "patience")]
        lines.append("validate = { " + ", ".join(fields + ([] if held_out else [f"data = {_data(validate['data'])}"])) +
                     " }")
    if spec["start"]:
        start = {"state": spec["start"], "weights_only": spec["weights_only"]}
        lines.append(f"start = {literal(start)}")
    return "local exp = rush.experiment {\n  " + ",\n  ".join(lines) + ",\n}"


def _rung(name: str, champion: Champion, first: Champion, timeout: float, by_loss: Optional[ByLoss]) -> str:
    """A champion as a rung on the first champion."""
    lines = _settings(champion.spec, timeout, by_loss)
    if stacked := [use["name"] for use in first.spec["plugins"]]:
        lines.append(f"without = {literal(stacked)}")
    if champion.external:
        effects = ["rounding", "precision", "model"]
        changes = [effects.index(change["effect"]) for change in champion.external.get("changes", [])
                   if change["effect"] in effects]
        lines += [f"command = {literal(command(champion.external))}",
                  f"effect = {literal(effects[max(changes, default=0)])}"]
    return f"rush.rung({literal(name)}, {{ {', '.join(lines)} }})"


def script(base: Champion, challenger: Optional[str], timeout: float, over: Optional[Champion] = None,
           by_loss: Optional[ByLoss] = None) -> str:
    """An experiment with the base, the champion `over` it (if it is another one), and the challenger (an expression
    of Lua)."""
    rungs: Iterable[str] = [*([_rung("the champion", over, base, timeout, by_loss)] if over else []),
                            *([challenger] if challenger else [])]
    ladder = "exp:ladder {\n" + "".join(f"  {rung},\n" for rung in rungs) + "}\n" if rungs else ""
    # On a CPU, step by step from the first round on; on a GPU, the program decides.
    interleave = 'rush.device() == "cpu" or nil'
    return (f'local rush = require "optrush"\n{_base(base, timeout, by_loss)}\n{ladder}'
            f"exp:run({{ interleave = {interleave} }}):report()\n")
