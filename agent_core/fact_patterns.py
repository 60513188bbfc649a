"""What counts as a fact in one sentence or line: the patterns, for several languages.

Numbers, identifiers, paths and addresses look the same in every language; words that decide or
leave open are English and German, with the commonest of Chinese and Japanese. Every repetition is
bounded and every pattern is tried only where a sign that it needs is there, so that a text costs
time in proportion to its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["decision", "open", "identifier", "amount", "date", "address", "name"]

WINDOW = 400  # characters of a sentence that are looked at together


class Span(NamedTuple):
    """A fact in a sentence: where it stands, and its text without quotation marks or key."""

    start: int
    end: int
    kind: Kind
    text: str
    key: str = ""  # of a member of a JSON object


# -- sentences ------------------------------------------------------------------------------------

# A dot ends a sentence before a capital letter, but not behind a day of the month ("3. Mai") or a
# short form ("Dr. Weiss", "z. B."). The sign is looked for first: most places have none.
_END = re.compile(
    r"\n+|(?<=[。！？])|(?=[,!?.])(?:(?<=\}),\s{0,40}(?=\{)|[!?][\"')\]»”]?\s+"
    r"|(?<![^.,\d]\d)(?<![^.,\d]\d\d)(?<!\A\d)(?<!\b[^\W\d])(?<!\bDr)(?<!\bNr)(?<!\bNo)(?<!\bMr)(?<!\bMrs)(?<!\bSt)(?<!\bca)"
    r"(?<!\bStr)(?<!\bvs)\.[\"')\]»”]?\s+(?=[^a-zäöü]))"
)


def sentences(text: str) -> Iterator[str]:
    """The sentences or lines of `text`, none longer than `WINDOW` characters, none empty."""
    start = 0
    for end in _END.finditer(text):
        # The mark at the end belongs to the sentence, the blanks behind it do not.
        yield from _windows(text[start : end.end()].strip())
        start = end.end()
    yield from _windows(text[start:].strip())


def _windows(sentence: str) -> Iterator[str]:
    """A long line in pieces, cut at blanks or commas so that no fact is cut in two."""
    start = 0
    while len(sentence) - start > WINDOW:
        end = start + WINDOW
        near = end - 100
        cut = max(sentence.rfind(sign, near, end) for sign in (" ", ",", ";", "、", "，"))
        end = cut + 1 if cut > near else end
        yield sentence[start:end].strip()
        start = end
    if start < len(sentence):
        yield sentence[start:].strip()


# -- what decides, what is open -------------------------------------------------------------------

_DECIDED = re.compile(
    r"\b(?:decided|agreed|agreement|decisions?(?= (?:is|was|to|that|on|we))|settled on|went with"
    r"|will use|we(?:'ll| will) go"
    r"|let'?s (?:use|go|take|keep|do|call|stick))\b"
    r"|\b(?:beschlossen|entschieden|entscheidung|vereinbart|abgemacht|einigten|geeinigt"
    r"|wir (?:nehmen|verwenden|bleiben)|lass uns)\b|决定|決定|同意|合意",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\b(?:remember|keep in mind|note that|from now on|always|never|i'?m called|call me"
    r"|my name|i (?:am called|live|work)|(?:answer|reply|write) in)\b"
    r"|\b(?:merke? dir|denk daran|ab jetzt|immer|niemals|nie|nenn mich|antworte|mein name"
    r"|ich (?:heiße|wohne|arbeite))\b|记住|記住|覚えて|总是|總是|我叫|私の名前",
    re.IGNORECASE,
)
_WANTED = re.compile(
    r"\b(?:must(?: not)?|do not|don'?t|instead|actually|i (?:want|prefer|need|meant)"
    r"|(?:my|our) [\w' -]{1,40} (?:is|are))\b"
    r"|\b(?:muss|müssen|sondern|stattdessen|eigentlich|ich (?:will|möchte|brauche|meinte)"
    r"|(?:mein|unser)e?[rnms]? [\w -]{1,40} (?:ist|sind|heißt|lautet))\b|不要",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:to-?dos?|still (?:open|missing|to|unclear|need)|not yet|pending|(?:remains?|left) open"
    r"|open (?:question|item|point|issue)|follow[- ]up|next steps?|tbd|tbc|unresolved|outstanding"
    r"|remind me|waiting for|we(?:'ll| will) (?:do|see|decide|discuss)|later|needs? to be)\b"
    r"|\b(?:(?:noch|bleibt) offen|offene[rnms]? (?:frage|punkt)|später|noch (?:nicht|zu|fehlt)"
    r"|ausstehend|steht (?:noch )?aus|erinnere mich|warten auf|nächste[rn]? schritte?|ungeklärt)\b"
    r"|待办|待辦|未解決|后续|後で|まだ",
    re.IGNORECASE,
)


_CODE = re.compile(r"\w[(\[]\S{0,80}[)\]]|[{};]\s{0,9}$|==?| -> |^\s{0,9}(?:if|def|return|import) ")


def weight_of(sentence: str, *, by_user: bool) -> Literal["decision", "open", ""]:
    """What a sentence does, if it decides something or leaves something open.

    A line of code in an answer does neither, whatever its words.
    """
    if not by_user and _CODE.search(sentence):
        return ""
    if _DECIDED.search(sentence) or (by_user and _WANTED.search(sentence)):
        return "decision"
    if by_user and is_lasting(sentence):
        return "decision"
    return "open" if _OPEN.search(sentence) else ""


def is_lasting(sentence: str) -> bool:
    """Tell whether a user's sentence holds for the whole conversation: "always", "my name is"."""
    return bool(_LASTING.search(sentence))


# -- the facts themselves -------------------------------------------------------------------------

_MONTH = (
    r"(?:Jan(?:uary|uar)?|Feb(?:ruary|ruar)?|Mar(?:ch)?|März|Apr(?:il)?|May|Mai|June?|Juni|July?|Juli"
    r"|Aug(?:ust)?|Sept?(?:ember)?|O[ck]t(?:ober)?|Nov(?:ember)?|De[cz](?:ember)?)\.?"
)
_DAY = (
    r"(?:(?:next|this|last|every|nächsten|kommenden|letzten|jeden) )?"
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(?:(?:nächsten|kommenden|letzten|jeden) )?"
    r"(?:Montag|Dienstag|Mittwoch|Donnerstag|Freitag|Samstag|Sonntag)|星期[一二三四五六日]"
)
_UNIT = (
    r"(?:€|\$|£|¥|₹|%|EUR|USD|GBP|CHF|JPY|CNY|INR|[Ee]uros?|[Dd]ollars?|[Pp]ounds?|[Yy]en|[Ff]ranken"
    r"|kg|mg|g|t|km/h|km|cm|mm|m²|m2|m|ml|l|L|kWh|kW|MW|W|V|A|GHz|MHz|Hz|[KMGT]i?B|kB|ms|min|sec|s|h"
    r"|°C|°F|元|円|人|個|件|万|percent|Prozent|hours?|days?|weeks?|months?|years?|minutes?|seconds?"
    r"|people|persons?|pieces|tokens?|rows|lines|items|Stunden?|Tagen?|Wochen?|Monaten?|Jahren?"
    r"|Minuten?|Sekunden?|Stück|Personen|Zeilen)"
)
_NUMBER = r"\d(?:[\d.,'\u00a0]{0,20}\d)?"
_SUFFIX = (
    r"py|toml|json|ya?ml|md|txt|csv|tsv|pdf|html?|css|jsx?|tsx?|rs|go|c|h|cpp|java|rb|php|sh|sql|db"
    r"|log|ini|cfg|conf|xml|png|jpe?g|svg|zip|tar|gz|docx?|xlsx?|pptx?|lock|env"
)
_CAPITAL = r"[A-ZÄÖÜÉÀÇŁŠŽ]"
_LETTERS = r"[a-zäöüßéèêëáàâãåæçíìîïóòôõøúùûñłśšžčćýÿ]"
_WORD = rf"{_CAPITAL}(?:{_LETTERS}|['’](?={_CAPITAL})|(?<=['’]){_CAPITAL}){{1,20}}"

_TITLED = re.compile(
    rf"\b(?:(?:Herrn?|Frau|Dr\.|Prof\.|Mr\.?|Mrs\.?|Ms\.?) (?:(?:Dr|Prof)\. )?{_WORD}(?: {_WORD})?"
    rf"|(?:named|called|heißt|namens|name is|Name ist) ({_WORD}(?: {_WORD}){{0,2}}))(?!\w)"
)

# (the signs of which one must be there, only in what a person or the model said, kind, pattern);
# what an earlier one has taken no later one takes again.
_PATTERNS: tuple[tuple[str, bool, Kind, re.Pattern[str]], ...] = (
    (":", False, "address", re.compile(r"\b[a-z]{2,8}://[^\s<>\"'`)\]}，。]{3,200}(?<![.,;:!?])")),
    ("@", False, "address", re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,4}\b")),
    (".", False, "address", re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w.])")),
    (
        "0123456789",
        False,
        "address",
        re.compile(
            r"\b[A-ZÄÖÜ][\w-]{1,30}(?:straße|strasse|str\.|weg|platz|gasse|allee) \d{1,4}[a-z]?\b"
            r"(?:, \d{5} [A-ZÄÖÜ]\w{2,30})?|\b\d{5} [A-ZÄÖÜ][a-zäöüß]{2,30}\b"
            r"|\b\d{1,5} (?:[A-Z]\w{1,20} ){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Drive)\b"
        ),
    ),
    (
        "-",
        False,
        "identifier",
        re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),
    ),
    (
        "0123456789",
        False,
        "date",
        re.compile(
            r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,6})?(?:Z|[+-]\d\d:?\d\d)?)?\b"
            r"|\b\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d\d)?(?!\d)|\d{4}年\d{1,2}月(?:\d{1,2}日)?|\d{1,2}月\d{1,2}日"
            rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\.? (?:of )?{_MONTH}(?:,? \d{{4}})?(?!\w)"
            rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b|\b{_MONTH} \d{{4}}\b"
            r"|\b\d{1,2}:\d\d(?::\d\d)?(?: ?[AaPp]\.?[Mm]\b| Uhr)?|\b\d{1,2} ?(?:[ap]m|Uhr)\b"
        ),
    ),
    ("dg星", True, "date", re.compile(rf"\b(?:{_DAY})\b")),
    (
        "/\\",
        False,
        "identifier",
        re.compile(
            r"(?<![\w/.~:-])(?:~|\.{1,2})?/[\w.@+-]{1,80}(?:/[\w.@+-]{1,80}){0,20}/?(?<![.,])"
            r"|\b[A-Za-z]:\\[\w.@+-]{1,80}(?:[\\ ][\w.@+-]{1,80}){0,20}"
        ),
    ),
    (
        ".",
        False,
        "identifier",
        re.compile(
            rf"(?<![\w/.-])[\w-]{{1,60}}(?:[/.][\w-]{{1,60}}){{0,8}}\.(?:{_SUFFIX})\b(?![\w/])"
        ),
    ),
    (
        "€$£¥₹ERUSDGBPCHF",
        False,
        "amount",
        re.compile(rf"(?:[€$£¥₹] ?|\b(?:EUR|USD|GBP|CHF) ){_NUMBER}(?: ?(?:k|[Mm]illion|bn))?"),
    ),
    (
        "0123456789",
        False,
        "amount",
        re.compile(
            rf"(?<![\w.,])-?{_NUMBER}(?: ?(?:k|[Mm]io\.?|[Mm]illion(?:en)?))? ?{_UNIT}(?![\w²])"
        ),
    ),
    (
        "0123456789",
        False,
        "identifier",
        re.compile(
            r"\b[A-Z][A-Za-z]{0,9}[-_/#]\d[A-Za-z0-9]{0,20}(?:[-_/][A-Za-z0-9]{1,20}){0,4}\b"
            r"|\b[A-Z]{1,5}\d[A-Z0-9]{1,20}(?:[-_/][A-Z0-9]{1,20}){0,4}\b"
            r"|\b[A-Z0-9]{2,12}(?:-[A-Z0-9]{2,12}){1,5}\b"
            r"|\b(?=[0-9a-f]{0,40}\d)(?=[0-9a-f]{0,40}[a-f])[0-9a-f]{7,64}\b"
            r"|(?<![\w&])#\d{1,10}\b|\b\d{5,20}\b|\b\d{2,6}(?:[-/]\d{2,8}){1,4}\b"
            r"|(?<!\w)\+\d[\d ()/-]{6,18}\d\b|\bv?\d{1,5}(?:\.\d{1,5}){2,3}\b"
        ),
    ),
    ("`", True, "identifier", re.compile(r"`([^`\n]{2,80})`")),
    ("_", True, "identifier", re.compile(r"\b[A-Za-z]\w{0,40}_\w{1,40}\b")),
    ("0123456789", True, "amount", re.compile(rf"(?<![\w.,/-])-?{_NUMBER}(?![\w/-])")),
    (
        '"“„«「『',
        True,
        "name",
        re.compile(r"[\"“„«]([^\"“”„«»\n]{2,60})[\"”“»]|[「『]([^」』\n]{1,40})[」』]"),
    ),
    (" ", True, "name", _TITLED),
    (
        " ",
        False,
        "name",
        re.compile(
            rf"\b{_WORD}(?:[ -](?:(?:von|van|de|der|la|di|del|zu) ){{0,2}}{_WORD}){{1,3}}(?!\w)"
        ),
    ),
)
# In English a capital letter within a sentence makes a name; in German it makes any noun.
_SINGLE = re.compile(rf"(?<=[\w,;:] )({_WORD})(?![\w’'])")
_ENGLISH = re.compile(r"\b(?:the|is|are|was|of|to|and|for|with|my|you|it|that|met|please|at)\b")
_GERMAN = re.compile(
    r"\b(?:der|das|und|ist|nicht|eine?|mit|auf|ich|wir|den|dem|zu|nach|bitte|es|von|im|ein|wie|sie)\b"
)
_NO_NAME = re.compile(
    r"(?:The|This|That|These|Those|There|Here|What|When|Where|Which|Who|Why|How|If|It|Is|Are|Was|In|On"
    r"|At|For|From|With|And|But|Or|No|Not|Yes|Please|Can|Could|Would|Should|Do|Does|Did|I|We|You|He"
    r"|She|They|My|Your|Our|His|Her|Let|An?|To|Of|By|As|So|Also|Then|Now|All|Some|Any|Ok|Okay|Sure"
    r"|Der|Die|Das|Ein|Eine|Einen|Den|Dem|Des|Im|Am|Ist|Sind|War|Wer|Wie|Wo|Wann|Warum|Und|Oder|Aber"
    r"|Nicht|Kein|Keine|Bitte|Kannst|Ich|Wir|Du|Sie|Er|Es|Mein|Meine|Dein|Deine|Unser|Unsere|Ihr|Ihre"
    r"|Mit|Von|Für|Auf|Aus|Bei|Nach|Zu|Zum|Zur|Als|Wenn|Dann|Hier|Error|Warning|Note|None|True|False"
    r"|I['’]\w{1,3})(?:[ -]|$)"
)
_PAIR = re.compile(
    r"\"([\w .$@/-]{1,40})\"\s{0,4}:\s{0,4}(?:\"([^\"\\\n]{1,120})\"|(-?\d[\d.eE+-]{0,24}))"
)
_TELLING_KEY = re.compile(
    r"(?:id|key|name|title|email|mail|phone|address|city|path|file|url|uri|host|ip|port|date|time"
    r"|created|updated|due|amount|total|price|cost|balance|count|quantity|status|state|number|nr|no"
    r"|version|hash|sha|commit|branch|author|user|owner|customer|order|ticket|invoice|reference)s?$",
    re.IGNORECASE,
)


# Chinese and Japanese put no blank before a number or a Latin word; their own signs end it there.
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_AMID_WIDE = tuple(
    (signs, only_spoken, kind, re.compile(pattern.pattern, re.ASCII))
    for signs, only_spoken, kind, pattern in _PATTERNS
)


def has_single_names(text: str) -> bool:
    """Tell whether a capital letter within a sentence of `text` makes a name, as in English."""
    return bool(_ENGLISH.search(text)) and not _GERMAN.search(text)


def spans_of(sentence: str, *, spoken: bool, single_names: bool = False) -> list[Span]:
    """The facts in one sentence, in its order, none within another.

    `spoken` is for what a person or the model wrote: bare numbers, quoted words and code count.
    Elsewhere they would be all there is. `single_names` takes one capital word for a name.
    """
    found: list[Span] = []
    taken = bytearray(len(sentence))
    chars = set(sentence)
    if not spoken and '"' in sentence:
        _take_pairs(sentence, found, taken)
    patterns = _AMID_WIDE if _WIDE.search(sentence) else _PATTERNS
    for signs, only_spoken, kind, pattern in patterns:
        if (only_spoken and not spoken) or chars.isdisjoint(signs):
            continue
        _take(pattern, kind, sentence, found, taken)
    if single_names:
        _take(_SINGLE, "name", sentence, found, taken)
    return sorted(found)


def _take(
    pattern: re.Pattern[str], kind: Kind, sentence: str, found: list[Span], taken: bytearray
) -> None:
    for match in pattern.finditer(sentence):
        start, end = match.span(match.lastindex or 0)
        text = sentence[start:end].strip()
        if any(taken[start:end]):
            continue
        if kind == "name":
            text = _as_name(text, alone=pattern is _SINGLE or bool(match.groups()))
            if not text:
                continue
        taken[start:end] = b"\1" * (end - start)
        found.append(Span(start, end, kind, text))


def _as_name(text: str, *, alone: bool) -> str:
    """The name in capital or quoted words, or "" if there is none; one word only with `alone`."""
    while skipped := _NO_NAME.match(text):
        text = text[skipped.end() :]
    if not alone and not re.search(r"[ -]", text):
        return ""
    is_name = len(text.split()) <= 8 and any(char.isalpha() for char in text)
    return text if is_name else ""


def _take_pairs(sentence: str, found: list[Span], taken: bytearray) -> None:
    """Members of a JSON object whose key says that the value matters."""
    for match in _PAIR.finditer(sentence):
        key, value = match[1], match[2] or match[3]
        if _TELLING_KEY.search(key) and not any(taken[match.start() : match.end()]):
            taken[match.start() : match.end()] = b"\1" * (match.end() - match.start())
            found.append(Span(match.start(), match.end(), _kind_of(key), value, key))


def _kind_of(key: str) -> Kind:
    low = key.lower()
    for kind, words in _KEY_KINDS:
        if any(word in low for word in words):
            return kind
    return "identifier"


_KEY_KINDS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("date", ("date", "time", "created", "updated", "due")),
    ("amount", ("amount", "total", "price", "cost", "balance", "count", "quantity")),
    ("address", ("mail", "phone", "address", "city", "url", "uri", "host", "ip", "port")),
    ("name", ("name", "title", "author", "user", "owner", "customer")),
)
