"""Texts made of like parts in fewer of them: tables by rows, records by blocks, diffs by files.

The head that explains them stays, then the first parts and some of the last, and how many there
are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from agent_core.clip_text import cut_middle, gap_line, head, shorten

_WIDEST = 400  # characters of one row that is shown
_SAMPLE = 40  # rows that are looked at to tell a table


def clip_table(text: str, chars: int) -> str | None:
    """A table with its header, first and last rows and the count; None if it is no table."""
    lines = text.rstrip("\n").split("\n")
    found = _table_of(lines)
    if found is None:
        return None
    kind, top = found
    rows = lines[top:]
    note = f"[{kind}, {len(rows)} rows, {len(text)} characters]"
    header = [shorten(line, max(chars // 4, 20)) for line in lines[:top]]
    width = max(min(_WIDEST, chars // 6), 20)
    return _first_and_last(note, header, rows, "rows", chars, width)


def _first_and_last(
    note: str, header: Sequence[str], rows: Sequence[str], what: str, chars: int, width: int
) -> str | None:
    """As many rows from the start, and a quarter of them from the end, as there is room for."""
    top = [note, *header]
    gap = f"[… {len(rows)} of {len(rows)} {what} left out …]"
    room = chars - sum(len(line) + 1 for line in top) - len(gap) - 1
    first: list[str] = []
    last: list[str] = []
    while len(first) + len(last) < len(rows) - 1:
        at_end = len(last) * 3 < len(first)
        row = _narrow(rows[-1 - len(last)] if at_end else rows[len(first)], width)
        room -= len(row) + 1
        if room < 0:
            break
        (last if at_end else first).append(row)
    if not first:
        return None
    gap = f"[… {len(rows) - len(first) - len(last)} of {len(rows)} {what} left out …]"
    return "\n".join([*top, *first, gap, *last[::-1]])


def _narrow(row: str, width: int) -> str:
    """A row or block in at most `width` characters; a block ends at a line's end."""
    if len(row) <= width:
        return row
    return head(row, width - 2).rstrip() + " …" if "\n" in row else shorten(row, width)


def _table_of(lines: Sequence[str]) -> tuple[str, int] | None:
    """The kind of the table in `lines` and how many of them are its head."""
    if len(lines) < 5:
        return None
    for index in range(1, min(len(lines), 8)):
        rule = lines[index].strip()
        if rule and "-" in rule and not set(rule) - set("|-:+= "):
            if "|" in rule and "|" in lines[index - 1]:
                return "Markdown table", index + 1
            if len(rule) > 3 and lines[index - 1].strip() and _is_aligned(lines[index:]):
                return "table", index + 1
    sample = [line for line in lines[:_SAMPLE] if line.strip()]
    for name, sign in (("TSV", "\t"), ("CSV", ","), ("CSV", ";"), ("table", "|")):
        if _is_delimited(sample, sign):
            return name, 1
    return ("table", 1) if _is_aligned(sample) else None


def _is_delimited(sample: Sequence[str], sign: str) -> bool:
    counts = [re.sub(r'"[^"]*"', "", line[:2000]).count(sign) for line in sample]
    usual = max(set(counts), key=counts.count)
    alike = counts.count(usual) / len(counts)
    return (usual >= 2 and alike >= 0.9) or (usual == 1 and alike == 1.0)


def _is_aligned(lines: Sequence[str]) -> bool:
    """Columns by blanks: most lines have a gap of two, and nearly as many fields as the others."""
    sample = [line[:_WIDEST] for line in lines[:_SAMPLE] if line.strip()]
    if len(sample) < 5:
        return False
    fields = [len(line.split()) for line in sample]
    usual = max(set(fields), key=fields.count)
    alike = sum(abs(n - usual) <= 2 for n in fields)
    gaps = sum("  " in line.strip() for line in sample)
    return usual >= 2 and alike >= 0.9 * len(sample) and gaps >= 0.6 * len(sample)


# -- records --------------------------------------------------------------------------------------

_LABEL = re.compile(r"[A-Za-z][\w-]{2,30}:?(?= |$)")
_FEWEST = 5  # blocks that make a list of records
_LONGEST = 60  # lines of a block


def clip_records(text: str, chars: int) -> str | None:
    """Blocks of lines that all begin with the same word, as in `git log`; None without them."""
    lines = text.rstrip("\n").split("\n")
    starts = _starts_of(lines)
    if not starts:
        return None
    ends = [*starts[1:], len(lines)]
    blocks = ["\n".join(lines[a:b]) for a, b in zip(starts, ends, strict=True)]
    width = max(min(3 * _WIDEST, chars // 4), 20)
    header = [shorten(line, 200) for line in lines[: starts[0]]]
    note = f"[{len(blocks)} records, {len(lines)} lines, {len(text)} characters]"
    return _first_and_last(note, header, blocks, "records", chars, width)


def _starts_of(lines: Sequence[str]) -> list[int]:
    """Where the blocks begin: at lines with the first word of one of the first three lines."""
    for line in lines[:3]:
        label = _LABEL.match(line)
        if label is None:
            continue
        word = label[0] + " " if len(line) > label.end() else label[0]
        starts = [i for i, other in enumerate(lines) if other.startswith(word)]
        if len(starts) < _FEWEST or starts[0] > 3:
            continue
        sizes = sorted(b - a for a, b in itertools.pairwise(starts))
        if sizes[len(sizes) // 8] >= 2 and sizes[len(sizes) // 2] <= _LONGEST:
            return starts
    return []


# -- code ----------------------------------------------------------------------------------------

_DEFINED = re.compile(
    r"^[ \t]{0,8}(?:(?:export|default|public|private|protected|static|async|pub|abstract) ){0,4}"
    r"(?:def|class|function|func|fn|interface|struct|enum|impl|trait|module|type) ([\w.]{2,60})",
    re.MULTILINE,
)


def clip_code(text: str, chars: int) -> str | None:
    """Head and tail of a program, and what is defined between them with the line of each."""
    lines = text.count("\n") + 1
    found = [(m.start(), m[1]) for m in itertools.islice(_DEFINED.finditer(text), 5000)]
    if len(found) < 3 or len(found) * 100 < lines:
        return None
    spare = 100 + chars // 4
    if chars < 2 * spare:
        return None
    cut = cut_middle(text, chars - spare)
    end = len(text) - len(cut.last)
    names, line, behind = "", 1, 0
    for start, name in found:
        line, behind = line + text.count("\n", behind, start), start
        piece = f"{', ' if names else ''}{name} {line}"
        if len(cut.first) <= start < end and len(names) + len(piece) <= spare - 100:
            names += piece
    more = f"defined there (with lines): {names}" if names else ""
    return cut.first + gap_line(cut, len(text), lines, more) + cut.last


# -- diffs ----------------------------------------------------------------------------------------

_DIFF = re.compile(r"^(?:diff --git |--- \S.{0,400}\n\+\+\+ \S)", re.MULTILINE)
_PART = 300  # characters of one file's changes that are worth showing


def clip_diff(text: str, chars: int) -> str | None:
    """The files of a diff with their added and removed lines, then the start of each."""
    if not _DIFF.search(text[:5000]):
        return None
    parts = re.split(r"^(?=diff --git )", text, flags=re.MULTILINE)
    if len(parts) == 1:
        parts = re.split(r"^(?=--- \S)", text, flags=re.MULTILINE)
    parts = [part for part in parts if part.strip()]
    files = [counted for part in parts if (counted := _changes(part))]
    if not files:
        return None
    added, removed = sum(f[1] for f in files), sum(f[2] for f in files)
    note = f"[diff, {len(files)} files, +{added} -{removed}, {len(text)} characters]"
    names = _names(files, chars // 3 - len(note))
    out = "\n".join([note, *names])
    room = chars - len(out) - 40
    each = max(room // len(parts), _PART)
    for part in parts:
        if room < _PART // 2:
            break
        shown = _start_of(part.rstrip("\n"), min(each, room))
        out += "\n" + shown
        room -= len(shown) + 1
    return out


def _start_of(part: str, chars: int) -> str:
    if len(part) <= chars:
        return part
    shown = head(part, chars - 40)
    return f"{shown}\n[… {part.count(chr(10)) - shown.count(chr(10))} more lines of this file …]"


def _names(files: Sequence[tuple[str, int, int]], room: int) -> list[str]:
    out: list[str] = []
    for name, plus, minus in files:
        line = f"{shorten(name, 100)} +{plus} -{minus}"
        room -= len(line) + 1
        if room < 0:
            return [*out, f"[… {len(files) - len(out)} more files …]"]
        out.append(line)
    return out


def _changes(part: str) -> tuple[str, int, int] | None:
    """Name, added and removed lines of one file of a diff."""
    name = re.search(r"^(?:\+\+\+ (?:b/)?(.{1,300})|diff --git .{0,300} b/(.{1,300}))", part, re.M)
    if name is None:
        return None
    lines = part.split("\n")
    plus = sum(line.startswith("+") for line in lines) - sum(x.startswith("+++ ") for x in lines)
    minus = sum(line.startswith("-") for line in lines) - sum(x.startswith("--- ") for x in lines)
    path = next(group for group in name.groups() if group).strip()
    deleted = path == "/dev/null" and re.search(r"^--- (?:a/)?(.{1,300})", part, re.M)
    return (deleted[1] if deleted else path), plus, minus
