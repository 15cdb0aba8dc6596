"""The results of a report in Python.

    report = optimization_rush.read("reports/quickstart/local")
    report                       # in a notebook: the answer, the table and the chart of speeds
    report.rows, report.runs, report.steps, report.validations     # tables
    report.headline, report.finding, report.claims                 # sentences
    report.charts["speed"]       # a chart as SVG

A table is a pandas.DataFrame if pandas is installed, otherwise a list of dicts.
"""
import functools
import html
import json
import pathlib
from typing import Any, Dict, List, Mapping, Union

Record = Dict[str, Any]


def table(records: List[Record]) -> Any:
    """A DataFrame if pandas is installed, otherwise the records."""
    try:
        import pandas
    except ImportError:
        return records
    return pandas.DataFrame(records)


class Chart:
    """An SVG, which a notebook shows."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    @property
    def svg(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Chart({str(self.path)!r})"


def _flat(record: Mapping[str, Any], prefix: str = "") -> Record:
    """Nested objects as columns: {"vs_base.speed.value": 1.2}. Lists stay as they are."""
    flat: Record = {}
    for key, value in record.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


class Report:
    """The files of a report's folder. `results`, `summary`: the whole results.json and summary.json."""

    def __init__(self, folder: Union[str, pathlib.Path]) -> None:
        self.folder = pathlib.Path(folder)
        self.results = self._load("results.json")
        self.summary = self._load("summary.json")

    def _load(self, name: str) -> Record:
        path = self.folder / name
        if not path.is_file():
            near = sorted(str(found.parent) for found in self.folder.glob("*/results.json"))
            raise FileNotFoundError(f"{self.folder} is not a report: it has no {name}; " +
                                    (f"it contains the reports {', '.join(near)}" if near else
                                     f"make it with: optrush report {self.folder}"))
        loaded: Record = json.loads(path.read_text(encoding="utf-8"))
        return loaded

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        return str(self.results["headline"])

    @property
    def finding(self) -> str:
        """The answer with intervals."""
        return str(self.results["finding"])

    @property
    def warnings(self) -> List[str]:
        """Reasons to doubt the answer."""
        return list(self.summary["warnings"])

    @property
    def claims(self) -> Any:
        """A table of the ratios to the base and to the rung below, with intervals and verdicts."""
        records = []
        for row in self.results["rows"]:
            for to in ("vs_previous", "vs_base"):
                compared = row.get(to)
                if not compared or not compared.get("speed"):
                    continue
                speed = compared["speed"]
                low, high = speed["interval"] or (None, None)
                records.append({"rung": row["rung"], "to": to.removeprefix("vs_"), "than": compared["rung"],
                                "speed": speed["value"], "low": low, "high": high, "verdict": speed["verdict"],
                                "memory": compared["memory"], "differs": compared["differs"]})
        return table(records)

    @property
    def rows(self) -> Any:
        """A row for each rung, with the columns of results.json: "vs_base.speed.value"."""
        return table([_flat(row) for row in self.results["rows"]])

    @property
    def runs(self) -> Any:
        """A row for each run: its rung, purpose, round and measurements."""
        records = []
        for run in self.stored_runs:
            result = {key: value for key, value in run["result"].items()
                      if key not in ("steps", "validation", "plan", "plugins")}
            records.append({**self._place(run), **_flat(result)})
        return table(records)

    @property
    def steps(self) -> Any:
        """A row for each step of each run."""
        return table([{**self._place(run), **_flat(step)}
                      for run in self.stored_runs for step in run["result"].get("steps", [])])

    @property
    def validations(self) -> Any:
        """A row for each validation of each run."""
        return table([{**self._place(run), **_flat(each)}
                      for run in self.stored_runs for each in run["result"].get("validation", [])])

    @functools.cached_property
    def stored_runs(self) -> List[Record]:
        """The name, the spec and the result of each run. A published report has them in one file."""
        if (packed := self.folder / "runs.jsonl").is_file():
            return [json.loads(line) for line in packed.read_text(encoding="utf-8").splitlines()]
        return [{"id": name, **{part: self._load(f"runs/{name}/{part}.json") for part in ("spec", "result")}}
                for name in self.results["runs"]]

    @staticmethod
    def _place(run: Record) -> Record:
        spec = run["spec"]
        return {"run": run["id"], "rung": spec.get("rung", ""), "purpose": spec.get("purpose", ""),
                "round": spec.get("round", 0)}

    @property
    def charts(self) -> Dict[str, Chart]:
        """The charts by name: "speed", "memory", "loss"."""
        return {path.stem: Chart(path) for path in sorted(self.folder.glob("*.svg"))}

    def __repr__(self) -> str:
        return f"Report({str(self.folder)!r}): {self.headline}"

    def _repr_html_(self) -> str:
        def cells(tag: str, values: List[Any]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(str(value))}</{tag}>" for value in values) + "</tr>"

        def number(value: Any, digits: str) -> str:
            return "" if value is None else format(value, digits)

        lines = [cells("td", [rung["rung"], rung["status"], number(rung["tokens_per_second"], ",.0f"),
                              number((rung.get("vs_base") or {}).get("speed"), ".2f")])
                 for rung in self.summary["rungs"]]
        warned = "".join(f"<p>Warning: {html.escape(text)}</p>" for text in self.warnings)
        chart = self.charts.get("speed")
        return (f"<p><b>{html.escape(self.headline)}</b></p>{warned}<table>"
                f"{cells('th', ['rung', 'status', 'tokens/s', 'vs base'])}{''.join(lines)}</table>"
                f"{chart.svg if chart else ''}")


def read(folder: Union[str, pathlib.Path]) -> Report:
    """The results in reports/EXPERIMENT/LABEL."""
    return Report(folder)
