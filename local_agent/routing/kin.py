"""Words that people say where the makers of tools wrote another: small groups of everyday kin."""

from __future__ import annotations

from collections.abc import Mapping

from .words import stem

# One group a line. Only words that nearly always point at the same kind of tool.
_GROUPS = """
event meeting appointment calendar schedule agenda
weather forecast rain snow umbrella wind sunny storm
temperature warm cold hot degrees thermometer celsius
heating heat thermostat
mail email inbox
file document path
directory folder
repository repo git
log history
commit commits committed
diff differ difference changed changes
time clock hour timezone
order purchase bought shipment delivery parcel
product article item
price cost cheap expensive euro dollar
note memo reminder
todo task
image picture photo screenshot
web internet website page url browse
database sql table rows
issue ticket bug
customer client account
contact address phone
calculate compute calculator arithmetic math expression
convert conversion
translate translation
music song playlist
map route distance
stock share
flight train travel
hotel room booking
wetter regen weather forecast
uhr uhrzeit time
termin termine event calendar
datei dateien file
notiz notizen note
bestellung order
meteo temps weather
fichier file
correo mail
archivo file
hora time
clima tiempo weather
"""


def _by_word() -> dict[str, frozenset[str]]:
    kin: dict[str, set[str]] = {}
    for line in _GROUPS.strip().splitlines():
        group = {stem(word) for word in line.split()}
        for word in group:
            kin.setdefault(word, set()).update(group - {word})
    return {word: frozenset(others) for word, others in kin.items()}


KIN: Mapping[str, frozenset[str]] = _by_word()
