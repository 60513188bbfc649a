"""What a prompt says of how its answer may look: calls only shown, or code that is the answer."""

from __future__ import annotations

import re

_LONGEST = 1_000  # characters of a prompt; behind them may stand whatever was piped in

# The user wants to see, and not that anything is done.
_ONLY_SHOW = re.compile(
    r"\b(?:only|just) (?:show|print|explain)\b|\bhow (?:would|could) (?:you|one)\b"
    r"|\b(?:do not|don['’]?t|never|without) (?:actually |really |yet )?(?:run|execut|call|do|send)"
    r"(?:e|ing|ning)? (?:it|this|that|them|any(?:thing| tools?)|the (?:call|tool|command))\b"
    r"|\bnur (?:zeigen|anzeigen|erklären)\b|\bzeig\w* (?:mir |es )?nur\b"
    r"|\bwie würde?s?t? (?:du|man)\b|\b(?:führ\w*|ruf\w*) \w+ nicht a\w+\b"
    r"|\b(?:nicht|ohne es) (?:aus(?:zu)?führen|auf(?:zu)?rufen)\b"
    r"|\bmontre[zr]?[- ]?(?:le |moi )*(?:seulement|juste)\b|\bsans (?:l['’]|le |la )?exécuter\b"
    r"|\bcomment (?:ferais|feriez|appellerais)\b|\b(?:solo|sólo) (?:muestra|enseña|mostra)\w*"
    r"|\bsin ejecutar\w*|\bno (?:lo |la )?ejecutes\b|\bcómo (?:lo )?harías\b|\bsenza eseguir\w*"
    r"|\bcome faresti\b|\bsem executar\b|\bnão execute\b|\bне (?:выполняй|запускай|вызывай)\w*"
    r"|\bтолько покажи\w*|不要(?:执行|运行|调用)|别(?:执行|运行|调用)|(?:只|仅)(?:显示|展示|给我看)"
    r"|実行(?:しないで|せずに)|見せるだけ|실행하지|보여주기만",
    re.I,
)
_VERBS = (
    r"(?:write|give|show|fix|correct|answer|reply|respond|return|output|convert|generate|make|create"
    r"|review|complete|refactor|debug|schreib\w*|gib|zeig\w*|korrigier\w*|antwort\w*|erzeug\w*|erstell\w*"
    r"|écri\w+|donne\w*|montre\w*|corrige\w*|répond\w*|escrib\w+|dame|muestra\w*|respond\w+|scriv\w+"
    r"|dammi|mostra\w*|escrev\w+|напиши\w*|дай\w*|покажи\w*|исправь\w*|ответь\w*)"
)
_CODE = (
    r"(?<![.\w/])(?:code|scripts?|snippets?|json|yaml|xml|python|javascript|typescript|fixtures?"
    r"|unit tests?|examples?|beispiel\w*|exemples?|ejemplos?|esempi\w*|exemplos?|funktion\w*"
    r"|codice|código|код\w*|скрипт\w*|пример\w*)(?![\w./])"
)
# The user wants code or data, which may look like a call.
_WANTS_CODE = re.compile(
    rf"\b{_VERBS}\b(?:\W+\w+){{0,6}}?\W+{_CODE}"
    r"|[写寫给給修回用][^\n。]{0,12}(?:代码|代碼|脚本|例子|示例|json)|(?:コード|スクリプト|例|json)を?[^\n。]{0,8}"
    r"(?:書|見せ|くだ)|(?:코드|스크립트|예시|json)\S* [^\n]{0,8}(?:작성|보여|써)"
    r"|(?<![\w.])[A-Za-z_]\w*\((?!e?[sn]\)|in\))[^()\n]*\)",
    re.I,
)


def wants_to_see(prompt: str) -> bool:
    """Whether a prompt says that nothing is to be run."""
    return bool(_ONLY_SHOW.search(prompt[:_LONGEST]))


def wants_code(prompt: str) -> bool:
    """Whether the answer to a prompt may be code or JSON that looks like a call."""
    return bool(_WANTS_CODE.search(prompt[:_LONGEST]))
