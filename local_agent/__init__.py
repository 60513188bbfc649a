"""A terminal chat agent over MCP tools, for a small model on the user's own machine."""

__version__ = "0.1.0"
