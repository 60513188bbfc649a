"""Fills ${VAR} and ${VAR:-default} in texts of the configuration from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_PLACE = re.compile(r"\$\$\{|\$\{(?P<inner>[^{}]*)\}|\$\{")
_INNER = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<or>:-(?P<default>.*))?", re.DOTALL)

# Where things are is on every screen; masking "/home/me" in it would hide no secret.
PUBLIC = frozenset(
    {"HOME", "USER", "LOGNAME", "PWD", "PATH", "SHELL", "LANG", "TZ", "TMPDIR", "TEMP", "TMP"}
    | {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"}
    | {"USERNAME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"}
)


@dataclass(slots=True)
class Filler:
    """Fills the texts of one table; remembers what it filled in, what is not set, what is odd.

    `values` are filled-in secrets, `public` filled-in values that are none. A variable that is
    set but empty is used as it is, and replaced by the default where there is one, as shells do.
    `$${` stands for a literal `${`.
    """

    environ: Mapping[str, str]
    values: list[str] = field(default_factory=list)
    public: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    malformed: bool = False

    def fill(self, text: str) -> str:
        """Return `text` filled in; what cannot be filled in is left as it stands."""
        return _PLACE.sub(self._one, text)

    def _one(self, place: re.Match[str]) -> str:
        if place[0] == "$${":
            return "${"
        inner = _INNER.fullmatch(place["inner"] or "")
        if inner is None:
            self.malformed = True
            return place[0]
        name = inner["name"]
        value = self.environ.get(name)
        if inner["or"] and not value:
            return str(inner["default"])  # stands in the file: no secret of the environment
        if value is None:
            if name not in self.missing:
                self.missing.append(name)
            return place[0]
        (self.public if name in PUBLIC else self.values).append(value)
        return value

    def problem(self) -> str:
        """One sentence without a full stop on what could not be filled in; "" if all could."""
        if self.missing:
            if len(self.missing) == 1:
                return f"the variable {self.missing[0]} is not set"
            return f"the variables {', '.join(self.missing)} are not set"
        if self.malformed:
            return "a ${...} that is neither ${NAME} nor ${NAME:-default} (a literal ${ is $${)"
        return ""


def variable_names(text: str) -> list[str]:
    """Return the names of the variables that `text` refers to, each once."""
    names: list[str] = []
    for place in _PLACE.finditer(text):
        inner = _INNER.fullmatch(place["inner"] or "")
        if inner and inner["name"] not in names:
            names.append(inner["name"])
    return names
