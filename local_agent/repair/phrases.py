"""What the words around a call say of it: that it is shown, that it is only supposed, or nothing.

No list of phrases is complete. So only the plainest ones make a text of a call; where a call may
be meant or shown, the model is asked, which costs one more reply.
"""

from __future__ import annotations

import re

from local_agent.call_marks import MARKS

_LONGEST = 1_000  # characters that are looked at

# What the last lines before a call say when it is shown and not made. Nothing in it may be what a
# model says that is about to act ("I don't know yet", "it looks like", "in JSON format").
_SHOWN = re.compile(
    r"\bfor (?:example|instance)\b|\bexamples?[*_]*:?[*_]*\s*\Z"
    r"|\b(?:here is|here'?s|this is|as) an example\b"
    r"|\bexamples? (?:of|call|request|usage|output|format)\b|\be\.\s?g\.|\bsyntax\b"
    r"|\blooks? like (?:this|so)\b|\b(?:would|will|could|might|should) look like\b"
    r"|\b(?:you|one|users?|models?) (?:can|could|would|should|might|may|must|need to|have to) "
    r"(?:use|call|write|run|send|invoke|try|type|say|emit|output|do)\b"
    r"|\bto (?:call|use|invoke) (?:a|an|the|this|it)\b[^.\n]*\b(?:you|write|use|send|one|simply)\b"
    r"|\b(?:do not|don'?t|never|must not) (?:run|call|use|write|send|execute|do)\b"
    r"|\bis (?:written|encoded|represented|formatted)\b"
    r"|\bbeispiel|\bz\.\s?b\.|\bexemple|\bejemplo|\besempio|\bexemplo|пример"
    r"|例如|例えば|例[:：]|示例|比如",
    re.I,
)
_DONE = r"(?:called|sent|ran|made|used|emitted|wrote|issued)"
_DO = r"(?:run|execute|call|make|send|do|perform|invoke|delete|proceed|go ahead)"
_FORM = r"(?:format|syntax|schema|template|markup|notation|structure)"
# What they say when it may be made or not: it is supposed; asked about; refused; reported; an
# article or a label that shows; an instruction to somebody else; its form is described.
_SUPPOSED = re.compile(
    r"\b(?:i|we|it|one) (?:would|could|might) (?:have |then )?"
    r"(?:call|use|run|write|send|invoke|do|suggest|recommend)(?:ed)?\b"
    r"|\bif (?:i|you|we|it) (?:had|could|were|was|want|wanted|wish|like|agree|approve|confirm)\b"
    r"|\bwould (?:be|have been)\b|\bi (?:suggest|recommend|propose)\b"
    r"|\b(?:should|shall|may) (?:i|we)\b|\b(?:do|would) you (?:want|like)\b"
    rf"|\b(?:please|once you) confirm\b|\bbefore (?:i|we) {_DO}\b"
    rf"|\b(?:will not|won'?t|can ?not|can'?t|unable to|not going to) (?:\w+ )?{_DO}\b"
    rf"|\b(?:earlier|previously|already)\b[^.\n]*\b{_DONE}\b|\b{_DONE} was\b|\bwas:\s*\Z"
    r"|\b(?:emitted|rendered|renders|contains?|returned|printed|produced)\b[^.\n]*:\s*\Z"
    r"|\b(?:here is|here'?s) an?\b|\b(?:here is|here'?s|this is) (?:how|what an?)\b|\byou'd\b"
    r"|\byou (?:asked for|requested|wanted)\s*:\s*\Z"
    r"|\b(?:such as|like (?:this|so)|something like|written like)\s*:?\s*\Z"
    r"|\b(?:sample|fixture|translation|transcript|snippet|log line|output|raw call|corrected"
    r"(?: \w+)?|(?:wrong|bad|typical|correct) (?:call|form[^:\n]*)|bad|don'?t|not to do)"
    r"(?: (?:is|tool|call))*[*_]*:[*_]*\s*\Z"
    r"|(?:^|\n)[\s\d.*-]*(?:now |then |please )?"
    r"(?:send|paste|copy|try|add|put|enter|type|submit|insert)\b[^\n]*:\s*\Z"
    rf"|\b(?<!json ){_FORM}(?: is| ist| est| es| used| of| for|\s*:)|\bthis form(?:at)?\b"
    r"|\b(?:is|are) (?:\w+ )?(?:as follows|structured|made as)\b"
    r"|\b(?:tool|function) calls? (?:\w+ ){0,4}(?:is|are|has|have|consists?|looks?)\b"
    r"|\bwürde|\bsieht so aus|\bs'?écrit|格式|次のよう",
    re.I,
)
_TALK = re.compile(r"^[^\w\n]*(?:user|human|question)[^\w\n]*:", re.I | re.M)
_OPEN_QUOTE = re.compile(r"(?:^|\s)[\"“«„‹`]\s*\Z")
_CALLS = (
    r"(?:(?:tool|function)[ _-]?call(?:s|ing)?\b|werkzeug-?aufruf|appels? d['’]outil"
    r"|llamadas? a (?:herramienta|funci)|工具调用|函数调用|ツール呼び出し"
    r"|вызов\w* (?:инструмент|функц))"
)
_FEW_WORDS = r"(?:\W+\w+){0,4}\W+"
# A question about calls: how they are written, or for one to look at.
_ASKED_FOR = re.compile(
    r"(?:\b(?:show|write|print|give|quote|explain|describe|repeat|convert|translate|fix|correct"
    r"|document|parse|how|what|example|sample|format|syntax|zeig\w*|schreib\w*|wie|was)\b"
    rf"{_FEW_WORDS}|[解写给什怎][^\n。]{{0,12}}){_CALLS}"
    rf"|{_CALLS}(?:{_FEW_WORDS}|[^\n。]{{0,12}})(?:{_FORM}|looks?|examples?|written|mean|tags?|xml"
    r"|aus|格式|例|意思)",
    re.I,
)
_EXPLAINED = re.compile(
    rf"\b(?:examples?|samples?|{_FORM}){_FEW_WORDS}{_CALLS}"
    rf"|{_CALLS}{_FEW_WORDS}(?:(?<!json ){_FORM}|examples?|is written|looks like)\b",
    re.I,
)
_MARKUP = re.compile(
    "|".join(re.sub(r"\?P<name>", "?:", mark.opening) for mark in MARKS if not mark.plain), re.I
)


def shows(before: str) -> bool:
    """Whether the text before a call says plainly that it only shows one."""
    return bool(_SHOWN.search(last_lines(before)))


def doubt_of(before: str) -> str:
    """Why the text before a call leaves open whether it is meant; "" where it does not."""
    if _SUPPOSED.search(last_lines(before)):
        return "the text before it only supposes it"
    if _TALK.search(before) or _OPEN_QUOTE.search(before):
        return "the text before it quotes somebody"
    return "the text before it explains calls" if _EXPLAINED.search(before) else ""


def asks_about_calls(prompt: str) -> bool:
    """Whether a prompt is about calls as such, so that the answer may well show one.

    Its beginning says so; behind it may stand whatever was piped in.
    """
    return bool(_ASKED_FOR.search(prompt[:_LONGEST]) or has_marks(prompt[:_LONGEST]))


def has_marks(text: str) -> bool:
    """Whether the mark of a call stands in a text."""
    return bool(_MARKUP.search(text))


def last_lines(before: str) -> str:
    """The last paragraph of the text before a call, at most three lines of it."""
    paragraph = re.split(r"\n[ \t]*\n", before.rstrip())[-1]
    return "\n".join(paragraph.split("\n")[-3:])[-_LONGEST:]
