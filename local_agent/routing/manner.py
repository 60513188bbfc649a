"""What a prompt shows by its form alone: small talk, a question about the conversation, one that
general knowledge answers, or a mere continuation. Meant to be right where it says yes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from .phrases import ASSENT, FILLERS, PHRASES

_LONG = 400  # characters; a longer prompt has something in it to be worked on


def plain(text: str) -> str:
    """`text` without case, accents, signs and apostrophes, its words parted by one blank."""
    folded = unicodedata.normalize("NFKD", text.casefold().replace("ß", "ss"))
    kept = "".join(c for c in folded if not unicodedata.combining(c))
    kept = unicodedata.normalize("NFC", re.sub(r"['’`´]", "", kept))
    return " ".join(re.sub(r"[^\w]+|_", " ", kept).split())


@lru_cache(maxsize=1)
def _small_talk() -> tuple[frozenset[tuple[str, ...]], frozenset[str], int]:
    """The phrases as words, the fillers, and the number of words of the longest phrase."""
    texts = (plain(p) for line in PHRASES.strip().splitlines() for p in line.split("|"))
    phrases = frozenset(tuple(text.split()) for text in texts if text)
    return phrases, frozenset(FILLERS.split()), max(map(len, phrases))


def _is_of_phrases(words: Sequence[str]) -> bool:
    """Whether `words` are phrases with fillers around them, at least one phrase among them.

    From left to right, with what each beginning can be read as: a pattern with both in it takes
    time that doubles with each "thanks a lot", which is a phrase, and also one with two fillers.
    """
    phrases, fillers, longest = _small_talk()
    only_fillers, has_phrase = [True], [False]  # of the first 0, 1, 2, ... words
    for end in range(1, len(words) + 1):
        is_filler = words[end - 1] in fillers
        only_fillers.append(only_fillers[-1] and is_filler)
        has_phrase.append(
            (is_filler and has_phrase[-1])
            or any(
                (only_fillers[at] or has_phrase[at]) and tuple(words[at:end]) in phrases
                for at in range(max(0, end - longest), end)
            )
        )
    return has_phrase[-1]


def is_small_talk(prompt: str, answered_question: bool) -> bool:
    """Whether `prompt` is nothing but greeting, thanks, praise or farewell.

    `answered_question`: what was said before it ended with a question, so that a "great" may be a
    yes to doing something.
    """
    if len(prompt) > _LONG:
        return False
    said = plain(prompt)
    if not said:  # an emoji, a row of dots
        return bool(prompt.strip()) and not answered_question
    if not _is_of_phrases(said.split()):
        return False
    return not (answered_question and agrees(prompt))


_THAT = r"(?:that|it|this|those|these|them|your (?:last |previous )?(?:answer|reply|response|text)"
_THAT += r"|the (?:above|last (?:answer|reply|part|sentence|one)|answer|result|summary)"
_THAT += (
    r"|what you (?:just )?(?:said|wrote|told me)|(?:this|our|the) (?:conversation|chat|discussion))"
)
_POLITE = r"(?:(?:please|can you|could you|would you|will you|now|and|ok|so|hm+|sorry) )*"
_AGAIN = r"(?: (?:again|for me|please|once more|one more time|briefly|in short))*"
_LANGUAGES = (
    "english|german|french|spanish|italian|portuguese|dutch|chinese|japanese|polish|russian"
)
# Atomic: "in one in one" can be read as one of these or as two, and a prompt of many in 2**n ways.
_HOW = (
    r"(?>(?: (?:in (?:one|two|three|a few|fewer|other|simpler|plain|simple|your own) ?\w*(?: \w+)?"
    rf"|(?:in|to|into) (?:{_LANGUAGES})"
    r"|more (?:simply|slowly|briefly|clearly|politely|formally)|shorter|simpler"
    r"|as (?:a|one) \w+(?: \w+)?|like i am five|like im five))*)"
)
_ABOUT_SAID = re.compile(
    "|".join(
        (
            rf"{_POLITE}(?:repeat|rephrase|summari[sz]e|shorten|simplify|explain|translate|reword"
            rf"|paraphrase|rewrite|say|recap) {_THAT}{_HOW}{_AGAIN}",
            rf"{_POLITE}make (?:it|that|this) (?:shorter|simpler|longer|clearer|more \w+){_AGAIN}",
            r"(?:a bit |much |even )?(?:shorter|simpler|in short|tldr)(?: please)?",
            r"what did (?:i|you|we) (?:just )?(?:say|ask|tell|mention|write|talk about|discuss"
            r"|mean)"
            r"(?: (?:just now|before|earlier|first|last|you|me|about it|by that|to you|so far))*",
            r"(?:what|which|who|where|when|how)\b.{0,40}\bdid (?:i|you|we) (?:just )?(?:say"
            r"|tell|mention)"
            r"\b.{0,40}",
            r"what have (?:i|you|we) (?:just )?(?:said|asked|told|talked about"
            r"|discussed)(?: so far)?",
            r"what (?:was|is|were) (?:my|your|the) (?:very )?(?:first|last|previous|second"
            r"|earlier) "
            r"(?:question|message|prompt|answer|reply|request)s?(?: to you)?",
            r"(?:do you (?:still )?remember|can you recall) (?:my name|what i (?:said|told you"
            r"|asked))",
            r"what(?: i|)s my name(?: again)?|what is my name(?: again)?",
            r"(?:what do you mean|what does that mean|why is that|why|how so|how come|really"
            r"|are you sure)"
            r"(?: by that)?",
            r"was (?:habe ich|hast du|haben wir) (?:gerade |eben |vorhin |zuletzt )?(?:gesagt"
            r"|gefragt"
            r"|geschrieben|besprochen)",
            r"(?:bitte )?(?:wiederhole|fass|ubersetze|erklare|kurze) (?:das|es|dies)(?: \w+){0,4}",
            r"qu est ce que (?:j ai|tu as) (?:dit|demande)",
            r"que (?:dije|dijiste|pregunte)(?: antes)?",
        )
    )
)
_MADE = re.compile(
    r"(?:please )?(?:can you |could you )?(?:(?:tell|give) me (?:a|an|another|some) (?:\w+ )?"
    r"(?:joke|riddle|story|fun fact|fact|poem|quote|tip|tips|idea|ideas|recipe|pun|names)"
    r"|(?:write|compose|make up|invent)(?: me)? (?:a|an|some|another) (?:\w+ ){0,2}(?:poem|haiku"
    r"|limerick|story|joke|song|rhyme|riddle|sonnet|toast|slogan|essay|verse)"
    r"|(?:erzahl|schreib|dichte)e? (?:mir |uns )?(?:eine?n? )(?:\w+ ){0,2}(?:witz|gedicht"
    r"|geschichte"
    r"|haiku|ratsel))\b"
)
_SPELT = re.compile(r"(?:how (?:do (?:you|i)|is) |is (?:it |\w+ ))spell(?:ed|t)?\b|how to spell\b")
_SUM = re.compile(
    r"(?:what(?:'s| is)|how much is|calculate|compute|was ist"
    r"|wie viel ist)?[\s\d+*/().,^x×÷%-]+[=?.]*",
    re.I,
)
_OWN_TEXT = re.compile(
    r"(?P<head>(?:please |can you |could you )*(?:shorten|summari[sz]e|translate|rewrite|rephrase"
    r"|proofread|simplify|paraphrase|improve|polish|correct|(?:fix|check|correct) the (?:grammar"
    r"|spelling|typos?|punctuation))\b[^:\"“„\n]{0,80})(?P<opening>[:\"“„\n])(?P<text>.*)",
    re.I | re.S,
)
_CLOSING = {'"': '"', "“": "”", "„": "“"}
# "and save it": what is made is wanted for something that takes a tool.
_DONE_WITH = re.compile(
    r"\b(?:and|then|und|et|y|e) (?:then |dann )?\w+ (?:it|them|that|this|es|sie|ihn|das|dies|lo|la"
    r"|los|las)\b|\b(?:et|puis) l ?\w+ "
)
_DEFINITE = re.compile(
    r"\b(?:the|and|then|into|der|die|das|den|dem|und|dann|le|la|les|l|et|puis|el|los|las|y|il|lo|e)\b"
)
_LONGEST_TEXT = 4_000  # characters
_TEXT_WORDS = 3
_AND = re.compile(r"^(?:and|so|but|ok|okay|now|also|then|und|et|y) ")
_KNOWN = re.compile(
    "|".join(
        (
            r"(?:what|whats) (?:is |are |was |were )?(?:a |an |the )?(?:capital|meaning|definition"
            r"|difference|opposite|plural|synonyms?|antonyms?|purpose of life|chemical|boiling"
            r"|speed of"
            r"|population|currency|official language|largest|smallest|highest|tallest|longest"
            r"|deepest"
            r"|square root|formula|symbol|atomic|name for)\b",
            r"(?:who|which \w+) (?:was|were|wrote|painted|invented|discovered|composed|built"
            r"|founded"
            r"|directed|sang|won|said)\b",
            r"(?:please )?(?:can you |could you )?(?:explain|define)(?: to me| me)?\b",
            r"what does (?:the )?(?:word |term |phrase |acronym )?.{1,40} (?:mean|stand for)\b",
            r"(?:what|whats) (?:is|are|s) (?:a|an)\b",
            r"(?:why|how) (?:is|are|do|does|did|was|were) (?:the |a |an )?\w+(?: \w+){0,6}$",
            r"how (?:many|much|far|long|old|tall|big|high|fast) (?!.*\b(?:file|i|we|my)\b)",
            r"(?:please )?(?:translate|say|how do you say)\b.{1,80}\b(?:in|to|into) (?:english"
            r"|german"
            r"|french|spanish|italian|portuguese|dutch|chinese|japanese|polish|russian|latin)",
            r"(?:name|list) (?:a|an|some|two|three|four|five|\d+) (?:\w+ ){0,2}(?:that|of|which"
            r"|with"
            r"|countries|planets|animals|colou?rs|fruits?|cities|languages|books|movies|films)\b",
            r"(?:was|wer|warum|wie|wo) (?:ist|sind|war|waren|schrieb|hat|heisst|bedeutet)"
            r"(?: \w+){1,6}$",
            r"erklare? (?:mir )?(?:einen?|was|den|die|das)\b",
            r"(?:quelle est la|quel est le) (?:capitale|difference|sens|plus)\b",
            r"(?:cual es la|cual es el) (?:capital|diferencia|significado|mas)\b",
        )
    )
)
# What a person says of themselves, and wants nothing done with.
_TOLD = re.compile(
    r"(?:(?:by the way|btw|fyi|just so you know|well|so|also|and) )*"
    r"(?:my (?:full |first |last |nick)?name is|my favou?rite (?:\w+ ){1,3}(?:is|are)"
    r"|i (?:really |also |do |mostly |usually )*(?:like|love|prefer|hate|dislike|live|work|speak"
    r"|come from|was born|grew up|study|studied)(?! to\b)"
    r"|(?:im|i am) (?:a|an|from|\d+ years)"
    r"|ich (?:heisse|mag|liebe|hasse|wohne|lebe|arbeite|spreche|komme aus|bin (?:eine?|aus|\d+))"
    r"|mein\w* (?:lieblings\w+|name) ist)\b(?: \w+){1,7}"
)
_ASIDE = re.compile(r"[,;] (?:just )?(?:so you know|fyi|by the way|btw|you know|nur so)\W*\Z", re.I)
# What makes a question one about here and now, which no general knowledge answers.
_LOCAL = re.compile(
    r"\b(?:my|mine|our|ours|us|here|these|todays?|tonight|tomorrows?|yesterdays?|now|currently"
    r"|current"
    r"|latest|recent|recently|newest|right now|at the moment|this (?:week|month|year|morning"
    r"|evening"
    r"|afternoon|repo\w*|project|folder|file|machine|computer|server|directory|code\w*|branch|page)"
    r"|mein\w*|unser\w*|heute|morgen|gestern|jetzt|aktuell\w*|hier|mon|ma|mes|notre|aujourdhui"
    r"|demain|hier|maintenant|ici|mi|mis|nuestr\w+|hoy|manana|ayer|ahora|aqui)\b"
)
_DATA = re.compile(
    r"https?://|\w[\\/]\w|[\\/]\w|\b\w+\.\w{1,5}\b(?!\.? *$)|#\d|@\w|[{}<>|=`]|\d{4,}"
)
_CONTINUES = re.compile(
    r"(?:and|but|or|also|then|next|now|ok|okay|yes|yep|yeah|sure|no|so|plus|again|same|ja|und|aber"
    r"|auch|dann|nochmal|oui|et|aussi|si|y|tambien|e|anche)\b|(?:what|how) about\b|go (?:ahead"
    r"|on)\b"
    r"|do (?:it|that|so)\b|please do\b|try (?:again|it|that)\b|(?:the )?(?:first|second|third|last"
    r"|other|next|previous) (?:one|two|ones)?\b|instead\b|was ist mit\b|wie ist es mit\b|mach\b"
)
_POINTS = re.compile(
    r"\b(?:it|its|them|they|their|that|those|these|this|one|ones|there|then|he|she|his|her|same"
    r"|each"
    r"|both|das|dies\w*|davon|dort|damit|ihn|ihm|sie|ca|cela|celui|eso|esto|ese|ella)\b"
)
_FEW = 8  # words of a prompt that leans on what was said before it
# Chinese, Japanese, Thai and their neighbours, written without blanks: each letter is a word here.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


_END = 600  # characters: a question may have a list behind it
_WAITS = re.compile(
    r"let me know|would you like|\bconfirm|\btell me (?:when|if|which|what|to)|\bif you\b"
    r"|\bwhen you\b|\bonce you|\bready\b|\bchoose\b|\bshall i\b|\bshould i\b|\bsay [\"“'‘]"
    r"|\bi can (?:now )?\w+"
    r"|bestätig|\bsoll ich\b|\bsag(?:en sie)? (?:mir|bescheid)|\bwenn (?:du|sie)\b|confirmez"
    r"|dites[- ]moi|\bsi vous\b|confirma|\bsi quieres\b|\bdime\b|请确认|确认|请告诉我|ください"
)


def is_about_said(prompt: str) -> bool:
    """Whether the prompt asks only about what was said in the conversation, or to say it anew."""
    return len(prompt) <= _LONG and _ABOUT_SAID.fullmatch(plain(prompt)) is not None


def is_known(prompt: str) -> str | None:
    """What of the prompt may still name a tool, if it has the form of what a model answers out of
    itself: general knowledge, a joke, a poem, the user's own text to be corrected. None if
    it has not, points at what is here or now, or wants something done with what is made."""
    around = _around_own_text(prompt)
    if around is not None:
        return _named_in(around)
    said = plain(prompt)
    if len(prompt) > _LONG or _LOCAL.search(said) or _DATA.search(prompt):
        return None
    if _SPELT.match(said):
        return ""
    if made := _MADE.match(said):
        return _named_in(said[made.end() :])
    bare = _AND.sub("", said)
    if bare != said and _POINTS.search(said):
        return None
    return said if _KNOWN.match(bare) else None


def is_told(prompt: str) -> bool:
    """Whether the prompt says something of the person in one sentence and asks for nothing."""
    told = re.sub(
        r"\A(?:by the way|btw|fyi|well|so),", "", _ASIDE.sub("", prompt.strip()), flags=re.I
    )
    if any(sign in told.rstrip(".!") for sign in ".,!?:;\n") or _DATA.search(told):
        return False
    return _TOLD.fullmatch(plain(told)) is not None


def is_sum(prompt: str) -> bool:
    """Whether the prompt is a sum and nothing else: for a calculator, or in the model's head."""
    return len(prompt) <= _LONG and _SUM.fullmatch(prompt.strip()) is not None


def _named_in(around: str) -> str | None:
    """What of the words around a text, or around the theme of one, may name a thing that is there:
    "the note trip", "and save it as a note", but not "about rain". None where something is to be
    done with it."""
    found = _DEFINITE.search(around)
    rest = around[found.start() :] if found else ""
    return None if _DONE_WITH.search(rest) else rest


def _around_own_text(prompt: str) -> str | None:
    """What a prompt says around a text of the user's that is in it, if it says what to do with its
    words; None where there is no such text."""
    found = _OWN_TEXT.match(prompt)
    if found is None or len(prompt) > _LONGEST_TEXT:
        return None
    head, text, behind = plain(found["head"]), found["text"], ""
    if closing := _CLOSING.get(found["opening"]):
        text, _, behind = text.rpartition(closing) if closing in text else (text, "", "")
    is_here = _LOCAL.search(head.replace("this", "")) or _DATA.search(found["head"])
    if is_here or len(text.split()) < _TEXT_WORDS or "://" in text:
        return None
    return f"{head} {plain(behind)}".strip()


def is_continuation(prompt: str) -> bool:
    """Whether the prompt is short and leans on what was said before it."""
    said = plain(prompt)
    length = sum(len(word) if _UNSPACED.search(word) else 1 for word in said.split())
    if not said or length > _FEW:
        return False
    return bool(_CONTINUES.match(said) or _POINTS.search(said) or length <= 2)


def asks(text: str) -> bool:
    """Whether a text asks something, offers something or waits for a word, near its end."""
    end = text.strip()[-_END:].casefold()
    return any(mark in end for mark in "?？؟") or _WAITS.search(end) is not None


def agrees(prompt: str) -> bool:
    """Whether small talk may also be a yes to what was said before it."""
    return not ASSENT.isdisjoint(plain(prompt).split())
