"""The small words of the main languages by which a sentence announces, refuses or only shows.

Patterns for `intent`, which says what each of them decides. Nothing here has to be complete: what
no word is known for is asked back about.
"""

from __future__ import annotations

import re

# -- a question: its sign in any script, or the word that ends one where no sign is written.
QUESTION = re.compile(
    r"[?？؟⸮՞፧]|(?:か|吗|까요?|ですか|ますか)[\s。．.:：]*\Z|[(/]\s*(?:no|n)\s*\)"
)
GREEK_QUESTION = re.compile(r"[\u0370-\u03ff][;\u037e]\s*\Z")

# -- a no: negations, refusals, and words that warn.
_NO_LATIN = (
    # English, German, Dutch, French
    r"not|never|no|none|nothing|cannot|neither|nor|refus\w+|den(?:y|ied|ies)|declin\w+|reject\w+"
    r"|forbid\w*|prohibit\w*|avoid|beware|mistake|dangerous|harmful|unsafe|unsure|hypothetical\w*"
    r"|pretend\w*|decided against|imagin\w+|suppos\w+|fake|dummy"
    r"|nicht|kein\w*|nie|niemals|nein|verboten|verweiger\w*|weiger\w*|lehne\w*|rate ich ab"
    r"|niet|nooit|geen"
    r"|ne|pas|jamais|aucun\w*|refuse\w*|interdit\w*"
    # Spanish, Italian, Portuguese
    r"|nunca|jamás|ning[uú]n\w*|proh[ií]b\w*|niego|rechaz\w+|non|nessun\w*|rifiut\w+|vietat\w+"
    r"|não|jamais|nenhum\w*|recus\w+|proib\w+"
    # Polish, Czech, Scandinavian, Turkish, Hungarian, Vietnamese, Indonesian
    r"|nigdy|odmawiam|nebudu|nesmím|nechci|nespustím|inte|ikke|ikkje|aldrig|aldri|ingen"
    r"|değil|hayır|yok|asla|sakın|\w+m[ae]y?(?:aca|ece)\w+|\w+m[ıiuü]yor\w*"
    r"|nem|soha|tilos|không|chưa|đừng|tidak|jangan|bukan|dilarang"
)
NO = re.compile(
    rf"\b(?:{_NO_LATIN})\b|n['’]t\b|\bn['’](?=[aeiouyéèêh])"
    r"|\b(?:не|ни|нет|нельзя|никогда|ні|запрещ\w*|отказ\w*)\b|\b(?:δεν|μην?|όχι|ποτέ)\b"
    r"|[不没沒勿别別禁]|拒绝|拒絶|中止|ません|ない|やめ"
    r"|(?:^|\s)(?:안|못)\s|않|없|마세요|말아|거부"
    r"|(?:^|\s)(?:لا|لن|لم|ليس|أرفض|ممنوع)(?=\s)|नहीं|मत(?=\s)",
    re.I,
)
# What is a no by its letters alone, or says what is not known or not there, and no more.
HARMLESS_NO = re.compile(
    r"\bno (?:problem|worries|need to (?:ask|guess|wait))\b|\bnot a problem\b|\bwhy not\b"
    r"|\bnot only\b|\bno longer\b|\bnot? (?:be )?(?:yet )?(?:found|known|there|listed)\b"
    r"|\bno (?:such|results?|matches|files?|notes?|entr\w+)\b|\bthere (?:is|are|was|were) no\w*"
    r"|\b(?:do|does|did)(?:n['’]t| not) (?:yet |currently |actually )?(?:know|see|exist|remember)\b"
    r"|\bdo(?:n['’]t| not) (?:yet |currently )?have (?!permission|the right|leave|to\b)"
    r"|\bnicht gefunden\b|\bkein problem\b|\bpas de (?:problème|souci)s?\b|\bn['’]hésitez pas\b"
    r"|\bsin problemas?\b|\bno hay (?:problema|de qué)\b|\bnessun problema\b|\bsem problemas?\b"
    r"|\b(?:не|нет) проблем\w*\b|\bnie ma (?:problemu|sprawy)\b|\bgeen probleem\b"
    r"|\bsorun (?:değil|yok)\b"
    r"|没问题|沒問題|没关系|不客气|不用担心|不错|不过|不仅|不同|别的|別の|特别|類別|类别|級別|級别|级别|区别"
    r"|問題ありません|かもしれません|すみません|申し訳ありません|なければな|문제없|문제 없",
    re.I,
)

# -- an announcement: the first person, or a verb that begins a clause as in "Calling list_dir".
_FILLER = (
    r"(?:[\W_]|\b(?:sure|ok(?:ay)?|alright|certainly|great|thanks|first|next|now|then|so|and|but|also"
    r"|just|step \d+|thought|plan|gut|gerne?|klar|zuerst|jetzt|dann|nun|also|und|bien|claro|luego"
    r"|d['’]abord|ensuite|donc|puis|allora|poi|ora|então|agora|zaraz|teraz|сейчас|сначала|тогда)\b)*"
)
_VERBS = (
    r"call|check|look|list|search|read|fetch|gett?|us|run|try|open|retriev|query|send|creat|writ|sav"
    r"|add|updat|delet|remov|sett|start|execut|invok|find|gather|load|request|schedul|book|mak|show"
)
_BEGINS = (
    rf"(?:{_VERBS})(?:n|r|t)?ing\b|let(?:['’]s\b| me\b(?! know)| us\b)|going to\b|time to\b"
    r"|the next step\b"
    r"|to (?:answer|find|get|see|do|check|know|help|look|show)\b"
    r"|here(?:['’]s| is| are) (?:the|my) (?:(?:tool|function|api) )?calls?\b|it looks like i\b"
    r"|lass(?:en sie)? (?:mich|uns)\b|mal sehen\b|schauen wir\b|suche\b|prüfe\b|rufe\b|laat me\b"
    r"|laisse[zs]?[- ]moi\b|voyons\b|regardons\b|voy a\b|vamos a\b|d[eé]jame\b|perm[ií]teme\b"
    r"|(?:consulto|busco|reviso|miro|llamo|ejecuto|compruebo|necesito|veamos)\b|\w+(?:aré|eré|iré)\b"
    r"|(?:vado|controllo|cerco|fammi|lasciami|chiamo|verifico|guardo|vediamo|devo)\b|\w+rò\b"
    r"|(?:vou|vamos|deixe-me|deixa-me|verifico|consulto|preciso)\b|\w+(?:arei|erei|irei)\b|(?:\w+ę|sprawdzam|szukam|pobieram)\b"
    r"|давайте\b|дайте\b|посмотр(?:ю|им)\b|провер(?:ю|им|яю)\b|вызываю\b|выполняю\b|смотрю\b|нужно\b|ищу\b|запрашиваю\b"
    r"|låt mig\b|lad mig\b|la meg\b|podívám\b|zkontroluj\w+|megnézem\b|để tôi\b|mari\b|biar\b"
    r"|(?:سأ|سوف|دعني|دعنا|لنر)\w*|चलिए|让我|讓我|我来|我來|我(?:们)?(?:先|将|会|要|需要|查|看|去|用|想)"
    r"|咱们|正在|接下来|马上|稍等|帮您|为您|查询|查看"
)
BEGINS = re.compile(rf"\A{_FILLER}(?:{_BEGINS})", re.I)
FIRST_PERSON = re.compile(
    r"\bi(?:['’](?:ll|m|d|ve))?\b|\bwe(?:['’](?:ll|re))?\b|\bich\b|\bwir\b|\bje\b|\bj['’]|\bnous\b"
    r"|\b(?:necesito|necesitamos|quiero|yo|io|eu|ik|jag|jeg|saya|tôi|já)\b|\b(?:я|мы|ми)\b|मैं|मुझे|\bθα\b"
    r"|我(?!的)|ましょう|(?:し|見|調べ|確認し|取得し|使い|呼び出し)て?(?:み)?ます"
    r"|겠습니다|할게요|볼게요|합니다|\w+(?:yorum|acağım|eceğim|ayım|eyim|alım|elim)\b",
    re.I,
)
# The first person that tells what it has read or done, or speaks of what somebody else may do.
REPORTED = re.compile(
    r"\b(?:i|we)(?:['’]ve| have)? (?:\w+ )?(?:found|saw|seen|read this|received|wrote|sent|ran|did"
    r"|called|used|made|quoted?)\b|\b(?:habe|haben)\b.*\b(?:gefunden|gelesen|gesehen|erhalten"
    r"|bekommen|geschrieben|gesendet)\b|\bj['’]ai (?:\w+ )?(?:trouvé|lu|vu|reçu|écrit|envoyé)\b"
    r"|\b(?:encontré|leí|recibí|escribí|ho (?:trovato|letto|visto|ricevuto)|encontrei|li|recebi)\b"
    r"|\b(?:нашёл|нашел|нашла|прочитал\w?|увидел\w?|получил\w?)\b|找到了|看到了|读到|收到"
    r"|,\s*(?:i|we) (?:guess|suppose|think|believe)\W*\Z|見つけ|読みまし|受け取|찾았|읽었|받았",
    re.I,
)

# What is said before anything, and says nothing of the call.
# Nothing is given back once it is read: a long row of such words must not be read in many ways.
SMALL_TALK = re.compile(
    r"(?:\W|\b(?:sure(?: thing)?|ok(?:ay)?|certainly|absolutely|of course|al(?:l )?right|got it"
    r"|understood|(?:good|great) question|great|good|perfect|hm+|well|yes|yeah|right"
    r"|no (?:problem|worries)|thanks?(?: you)?|(?:one|just a|a) (?:moment|second)|hold on"
    r"|please(?: wait)?|gerne?|klar|natürlich|alles klar|ja|verstanden|danke|kein problem|bitte"
    r"|(?:einen )?(?:kleinen )?moment|bien sûr|d['’]accord|oui|très bien|un instant|volontiers"
    r"|claro(?: que sí)?|vale|sí|por supuesto|un momento|certo|certamente|va bene|sì|un attimo"
    r"|sim|um momento|tudo bem|natuurlijk|goed|oczywiście|dobrze|jasne|tak|chwileczkę|tamam"
    r"|elbette|tabii|jasně|jistě|självklart|selvfølgelig|конечно|хорошо|да|понятно|секунду|минут[ку]у?"
    r"|ναι|βεβαίως|نعم|حسنا|بالتأكيد|हाँ|ठीक है)\b"
    r"|はい|承知しました|かしこまりました|了解です|わかりました|分かりました|少々お待ちください"
    r"|好的?|当然|可以|没问题|明白了?|请?稍等|네|알겠습니다|물론입니다|잠시만요)++",
    re.I,
)

# -- what only shows: a word that points at the call, a word for its form, or for what it stands in.
POINTS = re.compile(
    r"\b(?:this|that|these|those|such|the following|as follows|below)\b"
    r"|\b(?:dies(?:e[mnrs]?)?|das hier|so sieht|folgende\w*|wie folgt)\b"
    r"|\b(?:ceci|cela|voici|voilà)\b"
    r"|\b(?:esto|eso|así|siguiente|questo|così|seguente|isto|isso|assim|seguinte)\b"
    r"|\b(?:это|этот|эта|так|вот|следующ\w+)\b|\b(?:taki|tak|następując\w+)\b"
    r"|\b(?:dit|zo|volgende)\b"
    r"|这|這|如下|以下|下面|このよう|こう|これ|次の|이것|이런|이렇게|다음",
    re.I,
)
FORM = re.compile(
    r"\b(?:forms?|formats?|shapes?|schemas?|syntax|structure|template|notation|block|snippet|json"
    r"|xml|markup|usage|statement|tool calls?|function calls?|call has|calls have)\b"
    r"|\b(?:aufruf|struktur|schreibweise|format|beispiel|forme|appel|formato|forma|estructura"
    r"|sintaxis|llamada|struttura|chiamata|estrutura|chamada|składnia|wywołani\w+|aanroep)\b"
    r"|\b(?:формат|форм[аы]|структур[аы]|вызов\w*|синтаксис)\b"
    r"|结构|結構|格式|形式|构造|構造|语法|文法|调用的|呼び出しの|형식|구조|호출",
    re.I,
)
