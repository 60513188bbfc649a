"""Calls in Python notation, `list_dir(path="docs")`: read as literals, never run."""

from __future__ import annotations

import ast
import math
import warnings
from typing import Any

_LONGEST = 100_000  # characters
_DEEPEST = 100  # open brackets
_JSON_WORDS = {"true": True, "false": False, "null": None}


def python_calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """(name, arguments) of the calls that `text` is, a line or a list of them; none for any other.

    Arguments are named, and literals. `print(…)` around a call is left out, as Gemma writes it.
    """
    if len(text) > _LONGEST or sum(map(text.count, "([{")) > _DEEPEST:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an escape in a string that Python has not
            tree = ast.parse(text.strip()).body
        return [_call(node) for line in tree for node in _nodes(line)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _nodes(line: ast.stmt) -> list[ast.expr]:
    """The expressions of a line, which must be one or a list of them. Raises ValueError."""
    if not isinstance(line, ast.Expr):
        raise ValueError("no call")
    value = line.value
    return value.elts if isinstance(value, ast.List | ast.Tuple) else [value]


def _call(node: ast.expr) -> tuple[str, dict[str, Any]]:
    """Name and arguments of one call. Raises ValueError."""
    if not isinstance(node, ast.Call):
        raise ValueError("no call")
    name = _name(node.func)
    if name == "print" and len(node.args) == 1 and not node.keywords:
        return _call(node.args[0])
    if len(node.args) == 1 and isinstance(node.args[0], ast.Dict) and not node.keywords:
        return name, _literal(node.args[0])
    if node.args:
        raise ValueError("an argument without its name")
    args: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in args:
            raise ValueError("arguments that cannot be read")
        args[keyword.arg] = _literal(keyword.value)
    return name, args


def _name(node: ast.expr) -> str:
    """`tool`, `namespace.tool`, or `tool.call` as Llama writes it."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id if node.attr == "call" else f"{node.value.id}.{node.attr}"
    raise ValueError("no name")


def _literal(node: ast.expr) -> Any:
    """The JSON value that an expression is. Raises ValueError for anything that computes."""
    match node:
        case ast.Constant(value=str() | bool() | int() | None as value):
            return value
        case ast.Constant(value=float() as number) if math.isfinite(number):
            return number
        case ast.Name(id=word) if word in _JSON_WORDS:
            return _JSON_WORDS[word]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)) if (
            not isinstance(number, bool)
        ):
            return -number
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            names = [key.value if isinstance(key, ast.Constant) else None for key in keys]
            if len(set(map(str, names))) != len(names):
                raise ValueError("a key twice")
            if all(isinstance(name, str) for name in names):
                return dict(zip(names, map(_literal, values), strict=True))
    raise ValueError("no literal")
