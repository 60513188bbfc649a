"""What a reply says of itself: that it cannot do without a tool, or what it does next."""

from __future__ import annotations

import re

OPENING = 200  # characters of a reply in which it says that it cannot, or what it does next
_READ = 2 * OPENING

_CANNOT = re.compile(
    r"(?:\bI(?: am|['’]m)? (?:currently |still |just |only )?(?:sorry|unable|not able|afraid"
    r"|cannot|can['’]?t"
    r"|can not|do(?:n['’]t| not) (?:currently |yet |actually )?(?:have|know)|lack|have no)"
    r"[^.!?\n]{0,120}?\b(?:access|real[- ]?time|current|live|up[- ]to[- ]date|brows|internet"
    r"|search|look(?:ing)? up"
    r"|check|retriev|view|see your|read your|open|list|send|create|delete|fetch|tool|function"
    r"|perform|execut|run"
    r"|provide (?:the |you )?(?:current|live|real))"
    r"|\bas an? (?:AI|language model|text-based)\b[^.!?\n]{0,160}?\b(?:can['’]?t|cannot|unable"
    r"|not able|don['’]t)\b"
    r"|\bich (?:kann|habe) (?:leider )?(?:nicht|kein\w*)[^.!?\n]{0,80}?(?:zugriff|zugreifen"
    r"|abrufen|nachsehen|echtzeit)"
    r"|\bje (?:ne peux pas|n['’]ai pas)[^.!?\n]{0,80}?(?:acc[eè]s|acc[eé]der|temps r[eé]el)"
    r"|\bno (?:puedo|tengo)[^.!?\n]{0,80}?(?:acceso|acceder|tiempo real)"
    r"|(?:无法|不能|没有)(?:直接)?(?:访问|获取|查询|实时))",
    re.I,
)
_LOOKS = re.compile(
    r"\b(?:let me|I(?:['’]ll| will)) (?:just |now |quickly )?(?:check|look (?:that|it) up"
    r"|search|fetch|retrieve)",
    re.I,
)
# Of a sentence: that its speaker does something next. What follows "I will" or "let me" in an
# answer is among the exceptions.
_SAYS = (
    r"know|explain|answer|be|not|never|stop|leave|help|say|tell|keep|remember|assume|refrain"
    r"|respond|reply|respect|avoid|wait|stay|repeat|clarify|remind|gladly|happily|understand"
    r"|summari[sz]e|mention|point|note|admit|apologi[sz]e|ask|make sure"
    r"|see (?:that|from|your|the|a|one|two|three)"
)
_GOES_ON = re.compile(
    r"(?:(?:ok|okay|sure|alright|all right|understood|sorry|now|next|first|then|so|well|great"
    r"|instead|in that case|one moment|moment|certainly|of course)[,.:!]? )*"
    r"(?:(?:let me|let us|let['’]s|(?:i|we)(?:['’]ll| will|['’]m going to|['’]re going to"
    r"| am going to| are going to| (?:first |now |also )?(?:need|have) to|['’]d (?:like|need) to"
    r"| would (?:like|need) to| should)) "
    r"(?:(?:just|now|also|first|then|next|quickly|try to|go ahead and|start by|begin by) )*"
    rf"(?!(?:{_SAYS})\b)\w+"
    r"|(?:i['’]m |i am )?(?:now )?(?:checking|looking|searching|fetching|reading|calling|retrieving"
    r"|querying|trying|running|opening)\b"
    r"|(?:ich (?:werde|muss|schaue|suche|lese|prüfe|rufe|sehe)|lasst? (?:mich|uns)|schauen wir) \w+"
    r"|(?:je vais|laisse[zs]?[- ]moi) \w+|(?:voy a|déjame|dejame|permíteme) \w+"
    r"|(?:让我|我(?:来|将|会|去|再|先))(?!不))",
    re.I,
)
# What makes of it no more than an offer, a question, or something that is not done.
_NOT_NOW = re.compile(
    r"[?？\"“”„«]|\b(?:if|please|when|once|until|unless|whenever|not|no longer|never|cannot|wenn"
    r"|bitte|sobald|falls|nicht|kein\w*|leider|merken|si|pas|quand|cuando|ne|no)\b|n['’]t\b|不|如果",
    re.I,
)
_SENTENCE = re.compile(r"(?<=[.!?…。！？])\s*(?=\S)|\n+")


def declines(text: str) -> bool:
    """Whether a reply begins with saying that it cannot, or will look something up first."""
    opening = text[:_READ]
    return bool(_CANNOT.search(opening) or _LOOKS.search(opening))


def goes_on(text: str) -> bool:
    """Whether a reply says at its beginning or end what it does next, which takes another call."""
    if text.rstrip().endswith((":", "：")):
        return True
    sentences = [one.strip() for one in _SENTENCE.split(text[:_READ]) if one.strip()]
    ends = [one.strip() for one in _SENTENCE.split(text[-_READ:]) if one.strip()]
    return any(_GOES_ON.match(s) and not _NOT_NOW.search(s) for s in (*sentences[:1], *ends[-1:]))
