"""The report of a session: report.md, and champion.svg beside it."""
import datetime
import html
import math
import os
import pathlib
from typing import List, Optional, Tuple

from .decide import margin
from .rounds import LEAD
from .sentences import duration, percent, ratio, ratio_of, seconds_of, sentence, total
from .session import Session, Try

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 240, 60, 30


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _reports(attempt: Try, folder: pathlib.Path) -> str:
    """Links to the reports that are there: a session may be published without them."""
    there = [report for report in attempt.reports if (folder / report / "report.md").is_file()]
    return " ".join(f"[{report.rsplit('-', 1)[-1]}]({report}/report.md)" for report in there)


def _quantity(session: Session) -> str:
    return f"time to a loss of {session.settings.target_loss:g}" if session.settings.target_loss else "speed"


def _kept(session: Session) -> List[str]:
    what = _quantity(session)
    lines = [f"| | change | {what}, fresh rounds | rounds | at least | {what} of the stack | time |",
             "| ---: | :--- | ---: | ---: | ---: | ---: | :--- |",
             f"| 0 | {_cell(session.champions[0].name)} | 1 | | | 1 | {session.begun} |"]
    for place, champion in enumerate(session.champions[1:], 1):
        attempt = session.tries[(champion.by or 1) - 1]
        event = attempt.answer or {}
        whole = attempt.whole
        lines.append(f"| {place} | {_cell(champion.name)} | {ratio(event['speed'], event['low'], event['high'])} | "
                     f"{event['rounds']} | {math.exp(event['at_least']):.3f}x | {ratio_of(whole) if whole else ''} | "
                     f"{event['time']} |")
    return lines


def _tried(session: Session, folder: pathlib.Path) -> List[str]:
    lines = [f"| | challenger | answer | {_quantity(session)} | rounds | time | reports |",
             "| ---: | :--- | :--- | ---: | ---: | ---: | :--- |"]
    for attempt in session.tries:
        event = attempt.answer or {"answer": "no answer yet"}
        answer = event["answer"]
        if answer == "broken" and attempt.problem:
            answer = f"broken ({attempt.problem['by']}): {attempt.problem['text']}"
        speed = ratio(event["speed"], event["low"], event["high"]) if "speed" in event else ""
        if attempt.tokens and speed:
            speed += f" ({math.exp(attempt.tokens.mean):.3f}x tokens/s)"
        time = duration(sum(attempt.seconds.values()))
        lines.append(f"| {attempt.number} | {_cell(attempt.name)} | {_cell(answer)} | {speed} | "
                     f"{attempt.rounds or ''} | {time} | {_reports(attempt, folder)} |")
    return lines


def _spent(session: Session) -> List[str]:
    names = {"plan": "plans and builds", "screen": "screening", "confirm": "confirmation"}
    spent = {name: sum(each.seconds.get(step, 0.0) for each in session.tries) for step, name in names.items()}
    if session.rechecks:
        spent["other machines"] = sum(each.get("seconds", 0.0) for each in session.rechecks)
    whole = sum(spent.values()) or 1.0
    lines = ["| step | time | share |", "| :--- | ---: | ---: |"]
    lines += [f"| {name} | {duration(seconds)} | {100 * seconds / whole:.0f} % |" for name, seconds in spent.items()]
    answers: dict[str, List[float]] = {}
    for each in session.tries:
        answers.setdefault(each.answer["answer"] if each.answer else "no answer yet", []).append(
            sum(each.seconds.values()))
    lines += ["", "| answer | tries | median time of a try |", "| :--- | ---: | ---: |"]
    lines += [f"| {answer} | {len(times)} | {duration(sorted(times)[len(times) // 2])} |"
              for answer, times in sorted(answers.items())]
    return lines


def page(session: Session, folder: pathlib.Path) -> str:
    settings, whole = session.settings, total(session)
    if whole:
        head = (f"{len(session.champions) - 1} of {len(session.tries)} changes are kept. The champion " +
                (f"reaches a loss of {settings.target_loss:g} {ratio_of(whole)} as soon as the first one."
                 if settings.target_loss else f"trains {ratio_of(whole)} as fast as the first one."))
    else:
        head = f"None of {len(session.tries)} changes is kept."
    lines = ["# A night of changes", "", head, "",
             f"- A kept change is faster by more than {percent(round(math.expm1(margin(settings)), 6))}, passes the "
             "correctness gate, and was confirmed on rounds that were not seen when it was chosen.",
             f"- The probability that the session keeps a change without effect is at most {percent(settings.alpha)}. "
             f"{session.confirmations} confirmations have spent "
             f"{percent(round(settings.alpha * (1 - 1 / (session.confirmations + 1)), 5))}.",
             f"- *Equal* excludes a gain of {percent(settings.gain)}. Intervals are of 95 %.",
             *([f"- A ratio compares the training times to a loss of {settings.target_loss:g}, with another seed in "
                f"each round. A run was stopped when it had trained {LEAD:g} times as long as the other one took, and "
                "its ratio then counts as this limit."] if settings.target_loss else []),
             f"- Machine: {'; then '.join(session.machines)}.",
             f"- All tries together took {duration(seconds_of(session))}.", ""]
    lines += ["## The champion over the night", "", "![Speed of the champion](champion.svg)", "", *_kept(session), ""]
    if session.rechecks:
        lines += ["## On other machines", ""]
        lines += [f"- {each['machine']}: the {_quantity(session)} of the champion of that time is "
                  f"{math.exp(each['mean']):.3f}x relative to the first one." for each in session.rechecks]
        lines.append("")
    lines += ["## All that was tried", "", *_tried(session, folder), "", "## The time", "", *_spent(session), ""]
    if unfinished := [each for each in session.tries if not each.answer or each.answer["answer"] == "undecided"]:
        lines += ["## Not decided", "", *(f"- {_cell(sentence(session, each))}" for each in unfinished), ""]
    return "\n".join(lines)


def _seconds(time: str) -> Optional[float]:
    try:
        return datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def chart(session: Session) -> str:
    """The speed of the champion relative to the first one over the time, and each answer as a dot."""
    start = _seconds(session.begun) or 0.0
    steps: List[Tuple[float, float, float, float]] = [(0.0, 0.0, 0.0, 0.0)]
    dots: List[Tuple[float, float, str, str]] = []
    for attempt in session.tries:
        event = attempt.answer
        at = _seconds(event["time"]) if event else None
        if event is None or at is None:
            continue
        whole = attempt.whole
        if event["answer"] == "faster" and whole:
            steps.append((at - start, whole.mean, whole.low(0.025), whole.high(0.025)))
        elif "speed" in event:
            dots.append((at - start, steps[-1][1] + event["speed"], event["answer"], attempt.name))
    end = max([1.0, *(step[0] for step in steps), *(dot[0] for dot in dots)])
    # A slow challenger does not set the scale.
    high = max([0.02, *(step[3] for step in steps)]) * 1.1
    low = min(-0.02, -high / 4)

    def x(seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 10) * seconds / end

    def y(value: float) -> float:
        return 10 + (_HEIGHT - _BOTTOM - 10) * (high - max(low, min(high, value))) / (high - low)

    path = f"M{x(0):.1f},{y(0):.1f}"
    for at, value, _, _ in steps[1:]:
        path += f" H{x(at):.1f} V{y(value):.1f}"
    path += f" H{x(end):.1f}"
    ticks = [low + (high - low) * part / 4 for part in range(5)]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
             f'aria-label="The champion over the session: {_quantity(session)}" font-family="sans-serif" '
             'font-size="12">',
             f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>']
    parts += [f'<path d="M{_LEFT},{y(tick):.1f} H{_WIDTH - 10}" stroke="#ddd"/>'
              f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{math.exp(tick):.2f}x</text>'
              for tick in ticks]
    parts += [f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="3" fill="#999"><title>{html.escape(name)}: {answer}'
              '</title></circle>' for at, value, answer, name in dots]
    parts.append(f'<path d="{path}" fill="none" stroke="#3f51b5" stroke-width="2"/>')
    parts += [f'<path d="M{x(at):.1f},{y(below):.1f} V{y(above):.1f}" stroke="#3f51b5"/>'
              for at, _, below, above in steps[1:]]
    parts += [f'<text x="{x(end * part / 4):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">'
              f'{duration(end * part / 4)}</text>' for part in range(1, 4)]
    return "\n".join([*parts, "</svg>", ""])


def write(session: Session, folder: pathlib.Path) -> pathlib.Path:
    for name, text in (("champion.svg", chart(session)), ("report.md", page(session, folder))):
        temporary = folder / (name + ".tmp")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, folder / name)
    return folder / "report.md"
