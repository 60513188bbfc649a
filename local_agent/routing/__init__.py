"""Routes: which tools a turn gets, chosen without a model call wherever that is possible.

shelf = Shelf(routes_of(settings.routes, tools), tools, window, most)
choice = await Router(shelf, model, "auto")(messages, values)
"""

from .question import RouterModel
from .router import Router, Verdict
from .routes import ALL, GENERAL, Routes, check_route, routes_of
from .shelf import Shelf

__all__ = [
    "ALL",
    "GENERAL",
    "Router",
    "RouterModel",
    "Routes",
    "Shelf",
    "Verdict",
    "check_route",
    "routes_of",
]
