"""What greetings, thanks and farewells are made of in several languages, without accents."""

from __future__ import annotations

PHRASES = """
hi|hello|hey|hiya|howdy|yo|greetings|good morning|good afternoon|good evening|good night
good day|morning|evening|hi there|hello there|hey there|nice to meet you|pleased to meet you
welcome back|how are you|how are you doing|how are you today|how is it going|how do you do
whats up|sup|long time no see|how was your day|how is your day|how are things|thanks|thank you
thank you very much|thank you so much|thanks a lot|many thanks|thx|ty|cheers|tysm
much appreciated|i appreciate it|i appreciate your help|thanks again|thanks for your help
thanks for the help|thank you for your help|thank you for the help|that is all|thats all
that is it|thats it|that will be all|thatll be all|that was all|nothing else|no more questions
that is everything|thats everything|im done|i am done|we are done|were done|all done
that is all for now|thats all for now|that is all i needed|thats all i needed|that helps
that helped|bye|goodbye|good bye|bye bye|see you|see you later|see you soon|see you tomorrow
cya|later|take care|have a nice day|have a good day|have a great day|have a good one
have a nice evening|good luck|great|perfect|nice|cool|awesome|excellent|wonderful|amazing
brilliant|fantastic|lovely|super|neat|good|good job|well done|great job|nice work|great work
good work|sounds good|looks good|got it|i see|understood|makes sense|makes sense now
interesting|very interesting|good to know|fair enough|no problem|no worries|never mind
nevermind|forget it|no thanks|no thank you|you are welcome|youre welcome|sorry|my bad|lol|haha
ha ha|hahaha|wow|oh|ah|hm|hmm|alright|all right|you are great|you are awesome|i love you
youre great|youre awesome|youre the best|you are the best|you are very helpful
you were very helpful|who are you|what are you|what is your name|whats your name|are you there
are you a bot|are you an ai|are you human|are you a robot|how old are you|nice weather
i am back|im back|happy new year|merry christmas|happy birthday|congratulations|congrats|hallo
hallo zusammen|guten tag|guten morgen|guten abend|gute nacht|moin|servus|gruss gott
wie geht es dir|wie gehts|wie geht es ihnen|wie gehts dir|danke|danke schon|danke sehr
vielen dank|besten dank|herzlichen dank|dankeschon|das ist alles|das war alles|das wars
mehr nicht|tschuss|tschuess|auf wiedersehen|bis bald|bis spater|bis morgen|super danke|prima
toll|sehr gut|gut gemacht|klasse|alles klar|verstanden|schonen tag|schonen tag noch
schonen abend|gern geschehen|kein problem|wer bist du|nein danke|bonjour|bonsoir|salut|coucou
ca va|comment ca va|comment allez vous|merci|merci beaucoup|merci bien|c est tout|cest tout
au revoir|a bientot|a demain|bonne journee|bonne soiree|bonne nuit|parfait|tres bien
super merci|de rien|non merci|d accord|qui es tu|hola|buenos dias|buenas tardes|buenas noches
buenas|que tal|como estas|gracias|muchas gracias|mil gracias|eso es todo|nada mas|adios
hasta luego|hasta pronto|hasta manana|perfecto|muy bien|genial|de nada|vale|no gracias
quien eres|ciao|buongiorno|buonasera|salve|come stai|come va|grazie|grazie mille|molte grazie
e tutto|arrivederci|perfetto|molto bene|prego|a presto|chi sei|ola|oi|bom dia|boa tarde
boa noite|tudo bem|obrigado|obrigada|muito obrigado|muito obrigada|e so isso|tchau|ate logo
perfeito|muito bem|hallo daar|goedemorgen|goedemiddag|goedenavond|dank je|dank je wel|bedankt
dank u|tot ziens|dat is alles|hej|hejsan|god morgon|tack|tack sa mycket|hej da|god dag|takk
tak|mange tak|takk skal du ha|ha det|czesc|dzien dobry|dobry wieczor|dzieki|dziekuje
dziekuje bardzo|to wszystko|do widzenia|merhaba|selam|gunaydin|tesekkurler|tesekkur ederim
hosca kal|привет|здравствуите|здравствуй|добрыи день|доброе утро|добрыи вечер|как дела|спасибо
большое спасибо|спасибо большое|это все|пока|до свидания|отлично|привіт|дякую|до побачення
γεια|γεια σου|ευχαριστω|שלום|תודה|תודה רבה|مرحبا|شكرا|السلام عليكم|नमस्ते|धन्यवाद|你好|您好|你好吗
早上好|晚上好|谢谢|谢谢你|多谢|感谢|非常感谢|再见|好的谢谢|没有了|就这样|拜拜|辛苦了|こんにちは|こんばんは|おはよう|おはようこさいます|ありかとう|ありかとうこさいます
とうもありかとう|さようなら|またね|以上です|안녕|안녕하세요|감사합니다|고마워|고마워요|고맙습니다
안녕히 계세요
"""
# Words that may stand around such phrases.
FILLERS = """
so very much a lot really again for your the help everything all now and well just then too as my
friend buddy mate dear sir assistant bot everyone folks all guys there today tonight to you u this
ok okay k oh ah haha great it that was is been have i a
sehr fur deine ihre hilfe alles und also schon noch mal dir ihnen
pour votre ton aide tout et beaucoup
por tu su ayuda todo y muy mucho
"""
# What also says yes to a question; no small talk where one was asked.
ASSENT = frozenset(
    [
        "ok",
        "okay",
        "k",
        "great",
        "perfect",
        "nice",
        "cool",
        "good",
        "super",
        "alright",
        "excellent",
        "right",
        "fine",
        "sounds",
        "looks",
        "prima",
        "toll",
        "klasse",
        "klar",
        "parfait",
        "accord",
        "perfecto",
        "vale",
        "perfetto",
        "perfeito",
        "awesome",
        "wonderful",
        "fantastic",
        "brilliant",
        "understood",
        "genial",
        "sure",
        "yes",
        "yep",
        "yeah",
        "ja",
        "oui",
        "si",
        "sim",
        "да",
        "好",
        "好的",
        "はい",
        "네",
    ]
)
