"""What a model can do: probed once, kept in a small file, and turned into limits.

Imports nothing heavy, so that a profile can be read at every start; the checks themselves are in
`local_agent.probe.run`, which is imported where a probe is made.
"""

from __future__ import annotations

from .limits import Limit, advice_of, limits_of, set_by_profile, value_of, with_profile
from .profile import COUNTS, EMBEDDED, LEVELS, Findings, Identity, Profile, Share, identify
from .store import Profiles

__all__ = [
    "COUNTS",
    "EMBEDDED",
    "LEVELS",
    "Findings",
    "Identity",
    "Limit",
    "Profile",
    "Profiles",
    "Share",
    "advice_of",
    "identify",
    "limits_of",
    "set_by_profile",
    "value_of",
    "with_profile",
]
