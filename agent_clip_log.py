"""Logs and outputs of programs in fewer lines: no repeats, faults before anything else.

Lines stay in their order. Of lines that differ in numbers alone the first is shown, with how many
more there are; where room is left, they come too. A line in brackets stands for what is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_clip_text import shorten

_WIDEST = 400  # characters of one line that is shown
_MARK = 20  # characters of the mark for left out lines
_EACH_END = 8000  # lines from the start and from the end of a very long log that are looked at
_SAMPLE = 200  # lines that are looked at to tell a log
_TIME = re.compile(
    r"^[\[(<\s]{0,3}(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\w{2,3}[./]\d{2,4}|[A-Z][a-z]{2} +\d{1,2} "
    r"|\d\d:\d\d:\d\d)"
)
_LEVEL = re.compile(r"\b(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL|TRACE)\b")
_OUTPUT = re.compile(
    r"^(?:Traceback \(most recent call last\)|FAILED |E   |npm ERR!|error(?:\[\w{1,9}\])?: "
    r"|.{1,200}:\d{1,6}:(?:\d{1,6}:)? (?:error|warning)\b)",
    re.MULTILINE,
)
# What says by its form that it is a fault, and what only has a word for one. A name with such a
# word in it ("libgpg-error-dev") is neither.
_ERROR = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|PANIC|SEVERE)\b|^(?:E   +\S|FAILED|ERRORS?\b|Traceback|npm ERR!)"
    r"|^Caused by: "
    r"|\b(?:[Ee]rror|[Ff]atal|[Ff]ehler|[Pp]anic(?:ked)?)(?:\[\w{1,9}\])?:"
    r"|\b[A-Z]\w{0,60}(?:Error|Exception)(?::|$)"
)
_WORD = re.compile(
    r"(?<![\w.-])(?:errors?|fail(?:ed|ure|ures|s)?|exception|fatal|denied|refused|timed out"
    r"|timeout|panicked|segfault|segmentation fault|abort(?:ed|ing)?|unhandled|killed|fehler"
    r"|fehlgeschlagen)(?![\w-])",
    re.IGNORECASE,
)
_NONE = re.compile(
    r"\b(?:0|no|without|keine?) (?:errors?|failures?|failed|fehler)\b", re.IGNORECASE
)
_WARNING = re.compile(r"\b(?:warn(?:ing|ings)?|warnung|deprecat(?:ed|ion))\b", re.IGNORECASE)
_VARYING = re.compile(r"0x[0-9a-fA-F]{1,16}|\b[0-9a-f]{7,64}\b|[0-9]+")


def clip_log(text: str, chars: int) -> str | None:
    """A log, or the output of a program that reports faults, in fewer lines; else None."""
    return _clip(text, chars) if _is_log(text) else None


def clip_repeats(text: str, chars: int) -> str | None:
    """Any lines of which most are like others, in fewer of them; else None."""
    lines = _first_lines(text)
    is_like = len(lines) >= 5 and len({_key(line) for line in lines}) <= 0.3 * len(lines)
    return _clip(text, chars) if is_like else None


def _clip(text: str, chars: int) -> str | None:
    lines, left_out = _thinned(text.rstrip("\n").split("\n"))
    ranks = [_rank(line) for line in lines]
    first, repeats = _repeats(lines)
    _keep_traces(lines, ranks)
    count = len(lines) + left_out
    note = f"[log, {count} lines, {_count(ranks)}{len(text)} characters]"
    if left_out:
        note += f"\n[{left_out} lines from the middle are not looked at]"
    room = chars - len(note) - 1
    order = _by_weight(ranks, first, [i for group in repeats.values() for i in group[1:]])
    shown = _fit(lines, order, repeats, room)
    return f"{note}\n{shown}" if shown else None


def _thinned(lines: list[str]) -> tuple[list[str], int]:
    """Of a very long log the start, the end, and what looks like a fault between."""
    if len(lines) <= 2 * _EACH_END:
        return lines, 0
    middle = [line for line in lines[_EACH_END:-_EACH_END] if _ERROR.search(line, 0, _WIDEST)]
    kept = [*lines[:_EACH_END], *middle[:_EACH_END], *lines[-_EACH_END:]]
    return kept, len(lines) - len(kept)


def _fit(
    lines: Sequence[str], order: Sequence[int], repeats: dict[int, list[int]], room: int
) -> str:
    """As many lines of `order` as fit `room`."""
    width = max(min(_WIDEST, room // 5), 20)
    taken, left = 0, room - _MARK
    best = ""
    for _ in range(4):  # a mark between each two lines is reckoned at first, so some room is left
        while taken < len(order) and left > 0:
            left -= min(len(lines[order[taken]]), width) + 14 + (0 if best else _MARK)
            taken += 1
        taken -= left < 0
        shown = _join(lines, set(order[:taken]), repeats, width)
        if len(shown) > room:
            break
        best, left = shown, room - len(shown)
    return best


def _first_lines(text: str) -> list[str]:
    return [line for line in text[:40_000].split("\n") if line.strip()][:_SAMPLE]


def _is_log(text: str) -> bool:
    lines = _first_lines(text)
    if len(lines) < 5:
        return False
    marked = sum(bool(_TIME.match(line[:40]) or _LEVEL.search(line[:80])) for line in lines)
    return marked >= 0.3 * len(lines) or bool(_OUTPUT.search(text[:200_000]))


def has_levels(text: str) -> bool:
    """Tell whether a third of the lines says how grave it is: a log, even if it has columns."""
    lines = [line[:80] for line in _first_lines(text)]
    return sum(bool(_LEVEL.search(line)) for line in lines) >= max(0.3 * len(lines), 2)


def _count(ranks: Sequence[int]) -> str:
    errors, warnings = sum(rank <= _TRACE for rank in ranks), ranks.count(_WARNED)
    said = f"{errors} with errors, " if errors else ""
    return said + (f"{warnings} with warnings, " if warnings else "")


def _key(line: str) -> str:
    return _VARYING.sub("#", line[:_WIDEST])


def _repeats(lines: Sequence[str]) -> tuple[list[int], dict[int, list[int]]]:
    """The lines that are unlike all before, and with each of them those that are like it."""
    seen: dict[str, int] = {}
    like: dict[int, list[int]] = {}
    for index, line in enumerate(lines):
        if index >= len(lines) - _LAST:  # how it ended is said in its own words
            like[index] = [index]
        elif line and not line.isspace():
            like.setdefault(seen.setdefault(_key(line), index), []).append(index)
    return list(like), like


# -- what matters ---------------------------------------------------------------------------------

_FAULT, _TRACE, _NAMED, _WARNED, _END, _REST = range(6)
_LAST = 2  # lines at the end, where programs say how it went, that weigh as much as faults
_ENDS = 3
_FRAME = re.compile(r"\s{1,12}at \S|\s{0,12}\^|goroutine \d")  # Java, JavaScript, a compiler, Go
_FRAMES = 5  # of them behind a fault that are worth showing


def _rank(line: str) -> int:
    part = line[:_WIDEST]
    if _ERROR.search(part) and not _NONE.search(part):
        return _FAULT
    if _WORD.search(part) and not _NONE.search(part):
        return _NAMED
    return _WARNED if _WARNING.search(part) else _REST


def _keep_traces(lines: Sequence[str], ranks: list[int]) -> None:
    """The lines of a trace weigh little less than the one that says what happened.

    That is the last one of Python's, whatever it is called; elsewhere it comes first.
    """
    within, frames = False, 0
    for index, line in enumerate(lines):
        if line.lstrip().startswith("Traceback (most"):
            within = True
        elif within:
            within = line.startswith((" ", "\t"))
            ranks[index] = min(ranks[index], _TRACE if within else _FAULT)
        elif ranks[index] <= _FAULT:
            frames = _FRAMES
        elif frames and _FRAME.match(line):
            ranks[index] = min(ranks[index], _TRACE)
            frames -= 1


def _by_weight(ranks: Sequence[int], first: Sequence[int], alike: Sequence[int]) -> list[int]:
    """The lines, weightiest first; of equal ones in turn the first and the last that are left.

    `alike` are those like an earlier one: they come when all others have.
    """
    weights: list[list[int]] = [[] for _ in range(_REST + 1)]
    ends = {*first[:_ENDS], *first[-_ENDS:]}
    last = set(first[-_LAST:])
    for index in first:
        rank = _FAULT if index in last else ranks[index]
        weights[min(rank, _END) if index in ends else rank].append(index)
    ordered = [index for some in weights[:_END] for index in _from_both_ends(some)]
    alike_faults = [index for index in alike if ranks[index] < _END]
    others = [index for index in alike if ranks[index] >= _END]
    ordered += weights[_END] + weights[_REST]
    return ordered + _from_both_ends(alike_faults) + _from_both_ends(others)


def _from_both_ends(indexes: Sequence[int]) -> list[int]:
    half = (len(indexes) + 1) // 2
    front, back = indexes[:half], indexes[half:][::-1]
    pairs = [index for pair in zip(front, back, strict=False) for index in pair]
    return pairs + list(front[len(back) :])


def _join(lines: Sequence[str], chosen: set[int], repeats: dict[int, list[int]], width: int) -> str:
    """The chosen lines in their order, and how many are missing between them."""
    said = set(chosen).union(*(repeats.get(index, ()) for index in chosen))
    out: list[str] = []
    behind = 0
    for index in [*sorted(chosen), len(lines)]:
        missing = sum(1 for i in range(behind, index) if i not in said and lines[i].strip())
        if missing:
            out.append(f"[… {missing} line{'s' if missing > 1 else ''} …]")
        if index < len(lines):
            alike = len([i for i in repeats.get(index, ()) if i not in chosen])
            out.append(shorten(lines[index], width) + (f" [+{alike} alike]" if alike else ""))
        behind = index + 1
    return "\n".join(out)
