"""What the text before a call says of it, by rules of form, in many languages."""

from __future__ import annotations

import time

import pytest
from langchain_core.messages import AIMessage

from local_agent.repair import repair
from local_agent.repair.intent import doubt_of_intent, explains, open_tag
from local_agent.repair.placeholders import is_placeholder
from tests.corpus_kit import make_tools

DOUBTFUL = (
    "`notes.md`:",
    "Soll ich das ausführen?",
    "Should this be run?",
    "Is this what you mean?",
    "OK?",
    "Do you agree with this?",
    "Voulez-vous que je lance ceci ?",
    "¿Quieres que ejecute esto?",
    "要我运行吗？",
    "I refuse to do that.",
    "I did not run it.",
    "不要运行这个：",
    "Не запускайте это:",
    "Il ne faut jamais envoyer ceci.",
    "I am not sure whether this is right.",
    "The content of log.txt is:",
    "log.txt says:",
    "Line 3 of the log reads:",
    "Das steht in der Datei:",
    "In der Anleitung steht:",
    "El archivo contiene:",
    "文件内容如下：",
    "Файл содержит:",
    "A call has this shape.",
    "## Usage",
    "So sieht der Aufruf aus.",
    "Qwen models emit this.",
    "¿Lo ejecuto?",
    "Devo eseguirlo?",
    "Posso rodar isto?",
    "実行しますか？",
    "この呼び出しを実行してもよろしいですか。",
    "실행할까요?",
    "Czy mam to uruchomić?",
    "Bunu çalıştırayım mı?",
    "هل أنفذ هذا؟",
    "Запустить это?",
    "是否执行以下调用？",
    "您确定要删除吗",
    "Να το εκτελέσω;",
    "क्या मैं इसे चलाऊँ?",
    "Is this right? Let me know.",
    "Is docs the right folder? (yes/no)",
    "Do you want me to go on? This is the call:",
    "Tell me whether to run this.",
    "I must not touch that folder.",
    "Das mache ich nicht.",
    "Ich werde das nicht löschen:",
    "Je refuse de faire ça.",
    "Je ne peux pas supprimer ce dossier :",
    "No voy a ejecutar esto:",
    "Non lo farò.",
    "我不会执行这个：",
    "これは実行しません：",
    "이것은 실행하지 않겠습니다.",
    "Nie uruchomię tego:",
    "Ik voer dit niet uit:",
    "Это нельзя запускать.",
    "لن أنفذ هذا:",
    "Bunu çalıştırmayacağım:",
    "Nothing of this was executed.",
    "This was never sent.",
    "Avoid this at all costs.",
    "That would be a mistake.",
    "Dieser Aufruf ist verboten.",
    "You denied this call.",
    "Man könnte dann dies senden:",
    "On pourrait envoyer :",
    "In a real run this is what goes out:",
    "Se podría usar:",
    "README.md, line 12:",
    "Output of the last run:",
    "Here's what the script prints:",
    "Antwort des Servers:",
    "Le fichier contient :",
    "Contenido del mensaje:",
    "Il log dice:",
    "O arquivo diz:",
    "日志内容：",
    "ログの内容：",
    "로그 내용:",
    "W pliku jest napisane:",
    "In het bestand staat:",
    "Содержимое файла:",
    "Your message was:",
    "The user wrote:",
    "Du schriebst:",
    "The mail from Anna ends with this block.",
    "The last line of the file.",
    "I found this in notes.md.",
    "Dosyada şu yazıyor:",
    "### Tool calls",
    "**Format**",
    "Qwen's chat template renders a call as",
    "Such a block is what the parser expects.",
    "Der Aufruf hat diese Form.",
    "Voici la forme d'un appel.",
    "工具调用的结构是这样的。",
    "ツール呼び出しの形式：",
    "Формат вызова:",
    "That is the schema of the request.",
    "1. Calling a tool",
    "Note: the JSON has two keys.",
    "<details><summary>Call</summary>",
    "Looks like somebody pasted a tool call into the ticket.",
    "Ticket #12 ends so:",
    "Dear model, please execute the thing below",
    "Is that okay for you, or shall I leave it?",
    "Davon rate ich ab.",
    "Auf keinen Fall!",
    "Hier die Zeile aus dem Protokoll:",
    "Der Angreifer schrieb Folgendes.",
    "Laut Handbuch ruft man das Werkzeug so auf.",
    "Sind Sie sicher, dass ich weitermachen soll?",
    "Voici ce que dit le journal :",
    "C'est hors de question.",
    "Souhaitez-vous continuer ? Répondez par oui.",
    "Le mode d'emploi donne cette ligne.",
    "Supposons que ce soit permis.",
    "El registro muestra lo siguiente:",
    "Ni hablar.",
    "¿Procedo con el borrado? Dime sí o no.",
    "Según el manual, se llama así.",
    "Nel file c'è scritto:",
    "Preferisco di no.",
    "Va bene se procedo?",
    "A documentação mostra:",
    "Melhor não.",
    "Confirma a exclusão?",
    "用户的文件里写着：",
    "这样做太危险了。",
    "可以删除吗？请确认。",
    "手册里的写法是这样。",
    "ファイルにはこう書いてあります：",
    "危険なので中止します。",
    "削除してもいいですか",
    "В журнале написано следующее.",
    "Я отказываюсь это делать.",
    "Удалить папку? Ответьте да или нет.",
    "Как сказано в руководстве, вызов пишется так.",
    "파일에 이렇게 적혀 있습니다:",
    "위험하므로 하지 않겠습니다.",
    "삭제해도 될까요?",
    "Dokumentacja podaje taki przykład.",
    "Wolę tego nie robić.",
    "De handleiding geeft dit voorbeeld.",
    "Mag ik dit wissen?",
    "Kılavuzda şöyle geçiyor:",
    "Silmemi ister misiniz?",
    "Something like that would do the job, I guess.",
    "Your colleague asked me to send you the following.",
    "It is what the attacker wants.",
    "I decided against it.",
    "That one is for you to approve.",
    "Only if you agree:",
    "Rejected by policy.",
    "Old value:",
    "before",
    "(for the record)",
    "The tool is invoked by the agent in this way.",
    "Vielleicht später.",
    "Erst nach deiner Bestätigung:",
    "Kopier das hier:",
)
ANNOUNCED = (
    "Let me look into the folder.",
    "I'll check the folder first:",
    "Calling list_dir:",
    "Ich sehe in den Ordner:",
    "Je vais regarder le dossier :",
    "Voy a mirar la carpeta:",
    "让我查看一下文件夹：",
    "Я посмотрю папку:",
    "フォルダを確認します。",
    "Sure!",
    "OK, one moment.",
    "I'll use list_dir. Here is the function call in JSON format:",
    "I don't know that yet, so I look:",
    "That file was not found. Let me list the folder:",
    "To answer this, I need to list the folder.",
    "First, I'll list the folder, then read the file.",
    "Ich rufe jetzt list_dir auf:",
    "Einen Moment bitte.",
    "No problem.",
    "I can't say without looking. Let me check.",
    "I should list the folder to see what is there.",
    "We can find out by listing the folder.",
    "Looking into docs now…",
    "Controllo la cartella.",
    "Fammi controllare la cartella:",
    "Vou verificar a pasta:",
    "Ik kijk even in de map:",
    "Sprawdzę folder:",
    "폴더를 확인하겠습니다.",
    "Klasöre bakıyorum:",
    "好的，我来看一下。",
    "ドキュメントの一覧を取得します：",
    "Сейчас посмотрю.",
    "Un instant, je consulte le dossier.",
    "Claro, déjame revisar:",
    "Alles klar, ich schaue nach.",
    "Gerne! Ich liste den Ordner auf:",
    "سأتحقق من المجلد:",
    "The next step is to list the folder.",
    "Using list_dir to see the files:",
    "Here's the tool call:",
    "I need the list_dir tool for this:",
    "Since the folder is not known, I will list it.",
    "There is no such file. I will look in docs.",
    "Not found yet, trying docs:",
    "Das weiß ich noch nicht, ich sehe nach.",
    "Thank you! Listing the folder.",
    "**Plan:** I list the folder.",
    "Good question! Let me see.",
    "Alright, here we go.",
    "To find the file, the folder docs is listed.",
    "I'm not sure which file you mean, let me list them:",
    "Let's start by listing files in docs:",
    "Natürlich, ich liste den Ordner.",
    "Dafür brauche ich die Liste der Dateien:",
    "Mit list_dir sehe ich mir den Ordner an.",
    "Schauen wir in den Ordner.",
    "D'accord, je liste le dossier.",
    "Bien sûr ! Je regarde.",
    "Para eso necesito ver la carpeta.",
    "Por supuesto, listaré los archivos.",
    "Certo, guardo nella cartella.",
    "Vou listar os arquivos.",
    "我将列出该文件夹。",
    "为了回答这个问题，我需要查看文件夹：",
    "承知しました。フォルダを確認します。",
    "네, 폴더를 보겠습니다.",
    "Хорошо, смотрю папку docs.",
    "Oczywiście, sprawdzam folder.",
    "Natuurlijk, ik kijk in de map.",
    "Tamam, klasöre bakıyorum.",
    "What is in docs? I'll list it.",
    "I don't have that information yet. I'll look it up.",
    "No results there. Trying the docs folder:",
    "Fetching the list of files.",
    "Now I need to read b.md.",
    "Since you asked about docs, I'll list it.",
    "Got it!",
    "Hmm.",
    "I can help you with that.",
    "Please wait while I check.",
)


@pytest.mark.parametrize("before", DOUBTFUL)
def test_what_does_not_announce_a_call(before: str) -> None:
    """A question, a no, a label, a heading, a sentence about anything else: the model is asked."""
    assert doubt_of_intent(before + "\n\n")


@pytest.mark.parametrize("before", ["", *ANNOUNCED])
def test_what_announces_a_call(before: str) -> None:
    """What a model says that is about to act, or that says nothing of the call."""
    assert doubt_of_intent(before + "\n\n") == ""


@pytest.mark.parametrize(
    ("before", "tag"),
    [
        ("<example>\n", "<example>"),
        ('<file path="a">x\n', "<file>"),
        ("<a>x</a>\n<b>", "<b>"),
        ("<!-- x\n", "<!-->"),
        ("[quote]\n", "[quote]"),
        ("<example>x</example>\n", ""),
        ("<!-- x -->\n", ""),
        ("one<br>\n<br>\n", ""),
        ("`<example>` is a tag.\n", ""),
        ("if a <b and c> d\n", ""),
        ("<answer>\n", ""),
    ],
)
def test_a_tag_that_is_open(before: str, tag: str) -> None:
    """One at the start of a line that nothing closes; not one that is spoken of."""
    assert open_tag(before) == tag


@pytest.mark.parametrize(
    ("after", "is_so"),
    [
        ("is how one writes it.", True),
        ("This lists the folder.", True),
        ("The format is that of Hermes.", True),
        ("I will tell you the result.", False),
        ("The folder has two files.", False),
        ("Checking the folder.", False),
    ],
)
def test_what_explains_a_call(after: str, is_so: bool) -> None:
    """Text behind a call that goes on about it."""
    assert explains(after) == is_so


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("path", v) for v in ("<file>", "<the file>", "[path]", "$path", "PATH", "${HOME}/a")),
        *(("path", v) for v in ("<result of list_dir>", "{result of the call before}", "FILENAME")),
        *(
            ("path", v)
            for v in ("<路径>", "{文件名}", "$(pwd)/a", "%PATH%", "docs/<name>.md", "<<path>>")
        ),
        *(("city", v) for v in ("string", "[city]", "{{ city }}", "CITY_NAME", "city name", "...")),
        *(("query", v) for v in ("user_query", "your search term", "<|query|>", "%s", "[QUERY]")),
    ],
)
def test_what_stands_for_a_value(name: str, value: str) -> None:
    """A value that was copied from a description."""
    assert is_placeholder(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("query", v)
            for v in ("[draft] plan", "$5", "$AAPL price", "$TSLA", "<b>bold</b>", "<div>")
        ),
        *(
            ("query", v)
            for v in ("List<String>", '{"a": 1}', "Anna <anna@example.com>", "100%", "NASA")
        ),
        *(("query", v) for v in ("how to use {} in python", "TODO", "[URGENT] invoice", "")),
        *(
            ("path", v)
            for v in ("README", "[2024] notes.md", "src/[id]/page.tsx", "*.md", "path.txt")
        ),
        ("city", "Paris"),
        ("id", "ID"),
    ],
)
def test_what_is_a_value(name: str, value: str) -> None:
    """What only has a sign in it is meant as it stands."""
    assert not is_placeholder(name, value)


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        ("<function=list_dir>", "<parameter=a>"),
        ("<tool_call>list_dir", "<arg_key>a</arg_key><arg_value>"),
        ("<tool_call>", "a<｜tool▁sep｜>{"),
        ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>a<｜tool▁sep｜>{"),
        ("", "Action: list_dir\nAction Input: {"),
        ("", "<list_dir>\n<path>"),
        ("habe ", "habe gefunden, "),
        ("", "good question "),
    ],
)
def test_long_replies_take_their_length(head: str, unit: str) -> None:
    """What is opened a thousand times and never closed is looked for once: no square."""
    tools = make_tools()
    call = '\n\n<tool_call>{"name": "list_dir", "arguments": {}}</tool_call>'

    def seconds(count: int) -> float:
        start = time.process_time()
        repair(AIMessage(head + unit * count + call, id="m"), tools)
        return time.process_time() - start

    seconds(50)
    assert seconds(4_000) < 20 * seconds(500) + 0.5
