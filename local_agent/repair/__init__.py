"""Tool calls as a small model writes them: whole calls to run, or a text that says what is wrong.

Pure: the same reply, tools and history give the same result. Nothing is completed or guessed. A
call that can be read in one way only is brought into form, and says so; any other is not run, and
the model reads why and what to do.
"""

from __future__ import annotations

from .exact import exact
from .reply import BESIDE, DOUBTFUL, RAW, REPAIRED, repair
from .tools import KnownTool, signature

__all__ = ["BESIDE", "DOUBTFUL", "RAW", "REPAIRED", "KnownTool", "exact", "repair", "signature"]
