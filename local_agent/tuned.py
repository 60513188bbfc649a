"""The settings of a run as the profile of its model bounds them, once that model is known."""

from __future__ import annotations

from collections.abc import Callable

from local_agent.config import Settings
from local_agent.model import ChatModel
from local_agent.probe import Profiles, identify, with_profile


class Tuned:
    """Settings that a connected model changes; until then, and without a profile, those given.

    Only when a model is connected is it known which one it is, and how it is loaded. Before the
    first turn nothing is decided by what a profile may set. `apply` is told the settings each time.
    """

    def __init__(
        self, settings: Settings, profiles: Profiles, apply: Callable[[Settings], None]
    ) -> None:
        self._given = settings
        self._profiles = profiles
        self._apply = apply
        self.settings = settings

    def connected(self, chat: ChatModel) -> None:
        """Take the limits of the profile of this model, if it has one; reads one small file.

        The same again when the server is found to have another model, or the model another context.
        """
        self._take(chat)
        chat.on_found = lambda: self._take(chat)

    def _take(self, chat: ChatModel) -> None:
        identity = identify(chat, self._given.model.address)
        self.settings = with_profile(self._given, self._profiles.find(identity))
        chat.parallel_calls = self.settings.model.parallel_calls
        chat.json_schema = self.settings.model.json_schema
        self._apply(self.settings)

    def max_steps(self) -> int:
        """The most model calls of a turn."""
        return self.settings.max_steps
