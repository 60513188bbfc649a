"""The settings of a run as the profile of its model bounds them, once that model is known."""

from __future__ import annotations

from local_agent.config import Settings
from local_agent.model import ChatModel
from local_agent.probe import Profiles, identify, with_profile


class Tuned:
    """Settings that a connected model changes; until then, and without a profile, those given.

    Only when a model is connected is it known which one it is, and how it is loaded. Before the
    first turn nothing is decided by what a profile may set.
    """

    def __init__(self, settings: Settings, profiles: Profiles) -> None:
        self._given = settings
        self._profiles = profiles
        self.settings = settings

    def connected(self, chat: ChatModel) -> None:
        """Take the limits of the profile of this model, if it has one; reads one small file."""
        identity = identify(chat, self._given.model.address)
        self.settings = with_profile(self._given, self._profiles.find(identity))
        chat.parallel_calls = self.settings.model.parallel_calls
        chat.json_schema = self.settings.model.json_schema

    def max_steps(self) -> int:
        """The most model calls of a turn."""
        return self.settings.max_steps

    def max_tools(self) -> int:
        """The most tools of a prompt."""
        return self.settings.router.max_tools
