"""Tables, logs and diffs in fewer lines: the head that explains them, what matters, and counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agent_clip_text import shorten

_WIDEST = 400  # characters of one line that is shown
_TIME = re.compile(
    r"^[\[(<\s]{0,3}(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\w{2,3}[./]\d{2,4}|[A-Z][a-z]{2} +\d{1,2} "
    r"|\d\d:\d\d:\d\d)"
)
_LEVEL = re.compile(r"\b(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL|TRACE)\b")
_ERROR = re.compile(
    r"\b(?:error|err|fatal|critical|fail(?:ed|ure|ures|s)?|exception|panic(?:ked)?|traceback|fehler"
    r"|denied|refused|timed out|segfault|abort(?:ed)?|unhandled|cannot"
    r"|\w{1,40}(?:Error|Exception))\b"
    r"|^E   |^FAILED|^ERROR",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(
    r"\b(?:0|no|without|keine?) (?:errors?|failures?|failed|fehler)\b|\berrors?[=:] ?0\b", re.I
)
_WARNING = re.compile(r"\b(?:warn(?:ing|ings)?|warnung|deprecat(?:ed|ion))\b", re.I)
_VARYING = re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9a-fA-F]{8}-[0-9a-fA-F-]{4,27}|\d+")


def clip_table(text: str, chars: int) -> str | None:
    """A table with its header, first and last rows and the count; None if it is no table."""
    lines = text.rstrip("\n").split("\n")
    found = _table_of(lines)
    if found is None:
        return None
    kind, head = found
    rows = lines[head:]
    note = f"[{kind}, {len(rows)} rows, {len(text)} characters]"
    width = max(min(_WIDEST, chars // 6), 20)
    top = [shorten(line, max(width, chars // 4)) for line in lines[:head]]
    room = chars - len(note) - 1 - sum(len(line) + 1 for line in top)
    first, last, room = _ends(rows, room - 60, width)
    gap = f"[… {len(rows) - len(first) - len(last)} of {len(rows)} rows left out …]"
    if not first:
        return None
    return "\n".join([note, *top, *first, gap, *last])


def _ends(rows: Sequence[str], room: int, width: int) -> tuple[list[str], list[str], int]:
    """As many rows from the start and, a quarter of them, from the end as there is room for."""
    first: list[str] = []
    last: list[str] = []
    while len(first) + len(last) < len(rows) - 1:
        at_end = len(last) * 3 < len(first)
        row = shorten(rows[-1 - len(last)] if at_end else rows[len(first)], width)
        room -= len(row) + 1
        if room < 0:
            break
        (last if at_end else first).append(row)
    return first, last[::-1], room


def _table_of(lines: Sequence[str]) -> tuple[str, int] | None:
    """The kind of the table in `lines` and how many of them are its head."""
    if len(lines) < 5:
        return None
    for index in range(1, min(len(lines), 6)):
        rule = lines[index].strip()
        if rule and "-" in rule and not set(rule) - set("|-:+= "):
            if "|" in rule and "|" in lines[index - 1]:
                return "Markdown table", index + 1
            if len(rule) > 3 and lines[index - 1].strip():
                return "table", index + 1
    sample = [line for line in lines[:40] if line.strip()]
    for name, sign in (("TSV", "\t"), ("CSV", ","), ("CSV", ";"), ("table", "|")):
        if _is_delimited(sample, sign):
            return name, 1
    return ("table", 1) if _is_aligned(sample) else None


def _is_delimited(sample: Sequence[str], sign: str) -> bool:
    counts = [re.sub(r'"[^"]*"', "", line).count(sign) for line in sample]
    usual = max(set(counts), key=counts.count)
    least = 1 if sign == "\t" else 2
    return usual >= least and counts.count(usual) >= 0.9 * len(counts)


def _is_aligned(sample: Sequence[str]) -> bool:
    """Columns by blanks: most lines have a gap of two, and nearly as many fields as the others."""
    if len(sample) < 5:
        return False
    fields = [len(line.split()) for line in sample]
    usual = max(set(fields), key=fields.count)
    alike = sum(abs(n - usual) <= 2 for n in fields)
    gaps = sum("  " in line.strip() for line in sample)
    return usual >= 2 and alike >= 0.9 * len(sample) and gaps >= 0.6 * len(sample)


# -- logs -----------------------------------------------------------------------------------------


def is_log(text: str) -> bool:
    """Tell whether the lines look like those of a log or of a program's output with faults."""
    lines = [line for line in text[:20_000].split("\n") if line.strip()][:200]
    if len(lines) < 5:
        return False
    marked = sum(bool(_TIME.match(line[:40]) or _LEVEL.search(line[:80])) for line in lines)
    if marked >= 0.3 * len(lines):
        return True
    if len({_key(line) for line in lines}) <= 0.5 * len(lines):
        return True
    return "Traceback (most recent call last)" in text or "\nFAILED " in text


def clip_log(text: str, chars: int) -> str | None:
    """A log without repeats, with its faults kept before anything else; in the order it has."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) < 5:
        return None
    first, count = _repeats(lines)
    kinds = {index: _rank(lines[index]) for index in first}
    _keep_traces(lines, kinds)
    errors = sum(1 for index, line in enumerate(lines) if _is_error(line))
    note = f"[log, {len(lines)} lines, {errors} with errors, {len(text)} characters]"
    order = _by_weight(kinds, len(lines))
    width = max(min(_WIDEST, chars // 5), 20)
    best, low, high = "", 0, min(len(order), chars // 2)
    while low <= high:
        middle = (low + high) // 2
        shown = _join(lines, sorted(order[:middle]), count, width)
        if len(note) + 1 + len(shown) <= chars:
            best, low = shown, middle + 1
        else:
            high = middle - 1
    return f"{note}\n{best}" if best else None


def _key(line: str) -> str:
    return _VARYING.sub("#", line[:_WIDEST])


def _repeats(lines: Sequence[str]) -> tuple[list[int], dict[int, int]]:
    """Indexes of the lines that are unlike all before, and how often each comes in all."""
    seen: dict[str, int] = {}
    count: dict[int, int] = {}
    for index, line in enumerate(lines):
        if not line.strip():
            continue
        at = seen.setdefault(_key(line), index)
        count[at] = count.get(at, 0) + 1
    return sorted(count), count


def _is_error(line: str) -> bool:
    part = line[:_WIDEST]
    return bool(_ERROR.search(part)) and not _NO_ERROR.search(part)


def _rank(line: str) -> int:
    if _is_error(line):
        return 0
    return 1 if _WARNING.search(line[:_WIDEST]) else 3


def _keep_traces(lines: Sequence[str], kinds: dict[int, int]) -> None:
    """The lines of a traceback weigh as much as its last one."""
    within = False
    for index, line in enumerate(lines):
        if line.lstrip().startswith("Traceback (most"):
            within = True
        elif within:
            if index in kinds:
                kinds[index] = 0
            within = line.startswith((" ", "\t"))


def _by_weight(kinds: dict[int, int], total: int) -> list[int]:
    """The indexes, weightiest first: errors, warnings, the ends, then what follows the start."""
    ends = set(sorted(kinds)[:3]) | set(sorted(kinds)[-3:])
    return sorted(kinds, key=lambda i: (min(kinds[i], 2 if i in ends else 3), i))


def _join(lines: Sequence[str], chosen: Sequence[int], count: dict[int, int], width: int) -> str:
    out: list[str] = []
    behind = 0
    for index in chosen:
        if index > behind:
            out.append(f"[… {index - behind} lines …]")
        times = f" [×{count[index]}]" if count.get(index, 1) > 1 else ""
        out.append(shorten(lines[index], width) + times)
        behind = index + 1
    if behind < len(lines):
        out.append(f"[… {len(lines) - behind} lines …]")
    return "\n".join(out)


# -- diffs ----------------------------------------------------------------------------------------


def clip_diff(text: str, chars: int) -> tuple[str, str] | None:
    """The files of a diff with their added and removed lines, and the diff itself; or None."""
    if not re.search(r"^(?:diff --git |--- \S.*\n\+\+\+ \S)", text[:5000], re.M):
        return None
    files = _files_of(text.split("\n"))
    if not files:
        return None
    added, removed = sum(f[1] for f in files), sum(f[2] for f in files)
    note = f"[diff, {len(files)} files, +{added} -{removed}]\n"
    names: list[str] = []
    room = max(chars // 3, 1) - len(note)
    for name, plus, minus in files:
        line = f"{shorten(name, 100)} +{plus} -{minus}\n"
        room -= len(line)
        if room < 0:
            names.append(f"[… {len(files) - len(names)} more files …]\n")
            break
        names.append(line)
    return note + "".join(names), text


def _files_of(lines: Iterable[str]) -> list[tuple[str, int, int]]:
    files: list[tuple[str, int, int]] = []
    for line in lines:
        if line.startswith("+++ "):
            files.append((line[4:].removeprefix("b/").strip(), 0, 0))
        elif files and line.startswith("+"):
            name, plus, minus = files[-1]
            files[-1] = (name, plus + 1, minus)
        elif files and line.startswith("-") and not line.startswith("--- "):
            name, plus, minus = files[-1]
            files[-1] = (name, plus, minus + 1)
    return files
