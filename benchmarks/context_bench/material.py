"""Text as tools return it: logs, tables, JSON, code, diffs, pages, notes; all from a seeded source.

Each function takes a `random.Random` and a size in bytes and gives text of about that size, never
more than 8 KB and never less than some 0.2 KB: whole lines or whole records, so JSON can be parsed.
Nothing is read from the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from random import Random

SMALLEST, LARGEST = 200, 8192  # bytes of a result

SERVICES = ("checkout", "billing", "inventory", "search", "mailer", "gateway", "auth", "reports")
PEOPLE = (
    "Ana Lindqvist",
    "Marek Nowak",
    "Priya Raman",
    "Jürgen Vogt",
    "Chloé Bernard",
    "Sam Okafor",
    "Yuki Tanaka",
    "Elena Petrova",
    "Tom Aldridge",
    "Inés Calderón",
)
CITIES = ("Lyon", "Gdańsk", "Leeds", "Porto", "Graz", "Turku", "Bergen", "Ghent", "Brno", "Cádiz")
PRODUCTS = (
    "walnut desk",
    "reading lamp",
    "wool blanket",
    "espresso mill",
    "trail pack 40 l",
    "cast iron pan",
    "linen shirt",
    "travel kettle",
    "oak shelf",
    "bike light set",
)
STATES = ("paid", "packed", "shipped", "returned", "open", "cancelled")
WHEN = datetime(2026, 3, 2, 6, 0)


def _take(lines: Iterator[str], size: int) -> str:
    """Lines until the next one would go over `size`, but at least `SMALLEST` bytes of them."""
    out: list[str] = []
    taken = 0
    for line in lines:
        longer = taken + len(line.encode()) + 1
        if longer - 1 > size and taken > SMALLEST:
            break
        out.append(line)
        taken = longer
    return "\n".join(out)


def _clock(rng: Random) -> Iterator[datetime]:
    now = WHEN + timedelta(seconds=rng.randrange(40 * 86400))
    while True:
        now += timedelta(milliseconds=rng.randrange(3, 4000))
        yield now


def _id(rng: Random, prefix: str = "") -> str:
    return f"{prefix}{rng.getrandbits(32):08x}"


# -- logs -----------------------------------------------------------------------------------------

_TRACE = (
    "Traceback (most recent call last):",
    '  File "/srv/{s}/handlers.py", line {n}, in handle',
    "    return await self.store.save(order, timeout=self.timeout)",
    '  File "/srv/{s}/store.py", line {m}, in save',
    "    raise TimeoutError(f'no connection after {{waited:.1f}} s')",
    "TimeoutError: no connection after {n}.0 s",
)


def log(rng: Random, size: int) -> str:
    """A service log: mostly the same few lines again, some warnings, now and then a traceback."""
    service, host = rng.choice(SERVICES), f"node-{rng.randrange(1, 24):02d}"

    def lines() -> Iterator[str]:
        for now in _clock(rng):
            stamp = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z {host} {service}"
            roll = rng.random()
            if roll < 0.45:
                path = rng.choice(("/orders", "/cart", "/health", f"/orders/{rng.randrange(9999)}"))
                ms = rng.randrange(2, 900)
                yield f"{stamp} INFO  GET {path} 200 {ms} ms request={_id(rng)}"
            elif roll < 0.7:
                yield f"{stamp} DEBUG pool: {rng.randrange(20)} of 20 connections in use"
            elif roll < 0.85:
                yield f"{stamp} INFO  job {_id(rng, 'j-')} done, {rng.randrange(500)} rows written"
            elif roll < 0.95:
                yield f"{stamp} WARN  slow query ({rng.randrange(1000, 9000)} ms): orders_by_state"
            else:
                yield f"{stamp} ERROR order {rng.randrange(10_000, 99_999)} not saved, will retry"
                fields = {"s": service, "n": rng.randrange(5, 400), "m": rng.randrange(5, 400)}
                yield from (line.format(**fields) for line in _TRACE)

    return _take(lines(), size)


# -- records --------------------------------------------------------------------------------------


def _order(rng: Random) -> dict[str, object]:
    day = WHEN + timedelta(hours=rng.randrange(2000))
    return {
        "id": rng.randrange(10_000, 99_999),
        "customer": rng.choice(PEOPLE),
        "city": rng.choice(CITIES),
        "item": rng.choice(PRODUCTS),
        "quantity": rng.randrange(1, 6),
        "total": round(rng.uniform(9, 900), 2),
        "state": rng.choice(STATES),
        "placed": f"{day:%Y-%m-%d %H:%M}",
    }


def _host(rng: Random) -> dict[str, object]:
    return {
        "name": f"node-{rng.randrange(1, 24):02d}",
        "address": f"10.20.{rng.randrange(8)}.{rng.randrange(2, 250)}",
        "service": rng.choice(SERVICES),
        "version": f"{rng.randrange(1, 4)}.{rng.randrange(30)}.{rng.randrange(9)}",
        "load": [round(rng.uniform(0, 4), 2) for _ in range(3)],
        "healthy": rng.random() < 0.9,
        "labels": {"zone": rng.choice("abc"), "tier": rng.choice(("web", "job", "db"))},
    }


def records(rng: Random, size: int) -> str:
    """The JSON answer of an API: a page of orders or hosts, compact or indented."""
    make = rng.choice((_order, _host))
    indent = rng.choice((None, None, 2))
    page = {"page": rng.randrange(1, 9), "total": rng.randrange(100, 4000)}
    items: list[dict[str, object]] = []
    text = ""
    while True:
        items.append(make(rng))
        longer = json.dumps({**page, "items": items}, indent=indent, ensure_ascii=False)
        if len(longer.encode()) > size and len(text) >= SMALLEST:
            return text
        text = longer


def table(rng: Random, size: int) -> str:
    """What a query prints: a table with bars, or comma separated values."""
    rows = [_order(rng) for _ in range(size // 50 + 4)]
    names = list(rows[0])
    if rng.random() < 0.4:
        lines = [",".join(names), *(",".join(map(str, row.values())) for row in rows)]
    else:
        cells = [[str(row[name]) for name in names] for row in rows]
        widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
        shown = [names, ["-" * w for w in widths], *cells]
        lines = [" | ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in shown]
    return _take(iter(lines), size)


# -- code -----------------------------------------------------------------------------------------

_PIECES = (
    '''
async def {verb}_{noun}(store: Store, {noun}_id: int, *, timeout: float = {n}.0) -> {Noun}:
    """Give the {noun}, or raise `NotFound` when no row has its id."""
    async with store.connection(timeout) as conn:
        row = await conn.fetch_one("SELECT * FROM {noun}s WHERE id = ?", {noun}_id)
    if row is None:
        raise NotFound("{noun}", {noun}_id)
    return {Noun}.from_row(row)
''',
    '''
@dataclass(frozen=True, slots=True)
class {Noun}:
    """A {noun} as the {s} service stores it; amounts are cents."""

    id: int
    owner: str
    amount: int
    state: Literal["open", "paid", "closed"] = "open"
    changed: datetime | None = None

    @property
    def is_final(self) -> bool:
        return self.state != "open" and self.amount >= {n}
''',
    """
def {verb}_all({noun}s: Sequence[{Noun}], limit: int = {n}) -> list[{Noun}]:
    # The newest first, because the page shows no more than `limit` of them.
    chosen = sorted({noun}s, key=lambda each: each.changed or EPOCH, reverse=True)
    seen: set[str] = set()
    out = []
    for each in chosen[:limit]:
        if each.owner in seen:
            continue
        seen.add(each.owner)
        out.append(each)
    return out
""",
    """
class {Noun}Queue:
    def __init__(self, size: int = {n}) -> None:
        self._waiting: deque[{Noun}] = deque(maxlen=size)
        self._lock = asyncio.Lock()

    async def {verb}(self, {noun}: {Noun}) -> bool:
        async with self._lock:
            if {noun} in self._waiting:
                log.debug("{noun} %s is queued already", {noun}.id)
                return False
            self._waiting.append({noun})
            return True
""",
    '''
def test_{verb}_{noun}_twice_changes_nothing(store: Store) -> None:
    """{Noun}s are keyed by id: the second write is the same row."""
    first = store.{verb}({Noun}(id={n}, owner="a", amount=100))
    second = store.{verb}({Noun}(id={n}, owner="a", amount=100))
    assert first == second
    assert store.count("{noun}s") == 1
''',
    """
export function {verb}{Noun}(state: State, id: number): State {{
  const found = state.{noun}s.find((each) => each.id === id);
  if (!found || found.retries > {n}) {{
    return {{ ...state, error: `no {noun} ${{id}}` }};
  }}
  return {{ ...state, {noun}s: state.{noun}s.filter((each) => each !== found), last: found }};
}}
""",
)
_NOUNS = ("order", "refund", "invoice", "parcel", "voucher", "session", "address", "payment")
_VERBS = ("load", "save", "close", "merge", "refresh", "cancel", "assign", "archive")


def _code_lines(rng: Random) -> Iterator[str]:
    while True:
        noun = rng.choice(_NOUNS)
        fields = {"noun": noun, "Noun": noun.title(), "verb": rng.choice(_VERBS)}
        piece = rng.choice(_PIECES)
        yield from piece.format(**fields, n=rng.randrange(3, 90), s=rng.choice(SERVICES)).split(
            "\n"
        )


def code(rng: Random, size: int) -> str:
    """A source file, or a part of one."""
    return _take(_code_lines(rng), size)


def diff(rng: Random, size: int) -> str:
    """A commit with its message and its changes."""

    def lines() -> Iterator[str]:
        noun = rng.choice(_NOUNS)
        yield f"commit {rng.getrandbits(160):040x}"
        yield f"Author: {rng.choice(PEOPLE)} <{rng.choice(SERVICES)}-team@shop.example>"
        yield f"Date:   {WHEN + timedelta(hours=rng.randrange(2000)):%a %b %d %H:%M:%S %Y} +0100"
        yield ""
        yield f"    {rng.choice(_VERBS).title()} the {noun} once, also when the queue is full"
        while True:
            path = f"{rng.choice(SERVICES)}/{rng.choice(_NOUNS)}s.py"
            yield f"diff --git a/{path} b/{path}"
            yield f"index {rng.getrandbits(28):07x}..{rng.getrandbits(28):07x} 100644"
            start = rng.randrange(10, 300)
            yield f"@@ -{start},9 +{start},11 @@"
            for _, line in zip(range(rng.randrange(8, 24)), _code_lines(rng), strict=False):
                yield rng.choice((" ", " ", "+", "-")) + line

    return _take(lines(), size)


# -- prose ----------------------------------------------------------------------------------------

_SENTENCES = (
    "{p} found that the {s} service restarts whenever its pool has been empty for {n} seconds.",
    "The migration of the {s} tables takes about {n} minutes and holds no lock on reads.",
    "We agreed to keep the old address until the end of the month, then it answers with 410.",
    "{p} will write to the warehouse in {c}, because {n} parcels left it without a label.",
    "Nobody could say why the nightly run of {s} skipped the {d}; the backup of that day is whole.",
    "The budget for the second half of the year is {n},400 euros, of which a third is spent.",
    "Before a release, look at the queue: more than {n} waiting jobs mean that a worker hangs.",
    "If the certificate of the gateway is older than {n} days, renew it by hand and tell {p}.",
    "A customer from {c} reported that the total changes after the voucher is taken back.",
    "The limit of {n} requests a second is per address, so one office can use it up alone.",
    "Open: who answers the mail of the {s} team while {p} is away until the {d}?",
    "Search got slower after the index was built anew; the old one is kept beside it for now.",
    "Refunds above {n} euros need a second signature, which {p} or the office in {c} can give.",
    "The test environment has the data of the {d}, without names and without addresses.",
    "Decision: {s} moves first, {p} watches the error rate, and we go back above {n} per mille.",
    "What the page calls 'delivered' is the carrier's word; ours is only 'shipped'.",
    "The cause was a clock {n} seconds ahead on one machine, which made fresh tokens look stale.",
    "Two of the {n} alerts of the night were real, and both were about the disk in {c}.",
)


def _sentence(rng: Random) -> str:
    day = WHEN + timedelta(days=rng.randrange(90))
    return rng.choice(_SENTENCES).format(
        p=rng.choice(PEOPLE),
        s=rng.choice(SERVICES),
        c=rng.choice(CITIES),
        n=rng.randrange(2, 480),
        d=f"{day.day} {day:%B}",
    )


def _paragraphs(rng: Random) -> Iterator[str]:
    while True:
        yield " ".join(_sentence(rng) for _ in range(rng.randrange(1, 5)))


def notes(rng: Random, size: int) -> str:
    """Minutes or a page of a handbook, in Markdown."""

    def lines() -> Iterator[str]:
        yield f"# {rng.choice(SERVICES).title()}: notes of {WHEN.year}-{rng.randrange(1, 13):02d}"
        for n, paragraph in enumerate(_paragraphs(rng), 1):
            if n % 4 == 0:
                yield f"\n## {rng.choice(('Open', 'Decided', 'Background', 'Next steps'))}"
            yield f"- {paragraph}" if rng.random() < 0.4 else f"\n{paragraph}"

    return _take(lines(), size)


def page(rng: Random, size: int) -> str:
    """An HTML page with the usual frame around its text."""

    def lines() -> Iterator[str]:
        yield f"<!doctype html><html><head><title>{rng.choice(SERVICES)} handbook</title>"
        yield '<link rel="stylesheet" href="/static/site.css"></head><body><nav><ul>'
        for name in rng.sample(SERVICES, 3):
            yield f'<li><a href="/handbook/{name}" class="nav-link">{name}</a></li>'
        yield "</ul></nav><main>"
        for paragraph in _paragraphs(rng):
            yield f'<p class="text" id="p{rng.randrange(999)}">{paragraph}</p>'

    return _take(lines(), max(size - 20, SMALLEST)) + "\n</main></body></html>"


def answer(rng: Random, found: str) -> str:
    """What an assistant says of the result `found`: a line of it, and some sentences."""
    lines = [line.strip() for line in found.splitlines() if len(line.strip()) > 24]
    quoted = rng.choice(lines)[:120] if lines else found.strip()[:60]
    said = " ".join(_sentence(rng) for _ in range(rng.randrange(1, 4)))
    return f"The relevant part is `{quoted}`. {said}"


MAKERS: dict[str, Callable[[Random, int], str]] = {
    "log": log,
    "records": records,
    "table": table,
    "code": code,
    "diff": diff,
    "notes": notes,
    "page": page,
}
