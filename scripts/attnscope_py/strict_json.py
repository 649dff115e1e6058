"""JSON as the standard defines it, with errors that say where.

Python's own reader accepts NaN, Infinity, repeated keys and numbers beyond the range of a double; each of them
means that a result file is not what it claims to be.
"""

from __future__ import annotations

import json
import math
import re

_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN', re.DOTALL)


class JsonError(ValueError):
    """Not strict JSON; the text is one line and says where."""


class _Constant(ValueError):
    pass


def _position(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return f"line {line} column {column}"


def _refuse_constant(name: str) -> float:
    raise _Constant(name)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise JsonError(f"the number {digits[:40]} is beyond the range of a double")
    return value


def _integer(digits: str) -> int:
    # A number of JSON is a double to most of its readers, and what is done with it here.
    if len(digits) > 310 or not math.isfinite(float(digits)):
        raise JsonError(f"the number {digits[:40]}... is beyond the range of a double")
    return int(digits)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise JsonError(f"the key {repeated[:60]!r} stands twice in one object")
    return result


_MOST_NESTED = 64  # a result file has six levels; what walks one may then use recursion


def _check_texts(value: object, text: str) -> None:
    r"""Escapes such as \ud800 alone stand for no character, and cannot be written again."""
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise JsonError("half of a surrogate pair (\\ud800 to \\udfff) stands alone") from None


def _check_nesting(value: object) -> None:
    level = [value]
    for _ in range(_MOST_NESTED):
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list))]
        level = [v for some in inner for v in some]
        if not level:
            return
    raise JsonError("nested too deeply")


def loads(data: bytes) -> object:
    """The value of strict JSON in UTF-8; JsonError for anything else."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8 at byte {error.start}") from None
    if not text.strip():
        raise JsonError("the file is empty")
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_unique,
        )
    except _Constant as constant:
        hit = next(m for m in _STRING_OR_CONSTANT.finditer(text) if not m.group().startswith('"'))
        raise JsonError(f"{_position(text, hit.start())}: {constant} is not JSON") from None
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()):
            raise JsonError(f"it breaks off at {_position(text, error.pos)}") from None
        what = error.msg[0].lower() + error.msg[1:]
        if what.startswith("unterminated string"):
            raise JsonError(f"it breaks off in the string at {_position(text, error.pos)}") from None
        raise JsonError(f"{_position(text, error.pos)}: {what}") from None
    except RecursionError:
        raise JsonError("nested too deeply") from None
    _check_nesting(value)
    _check_texts(value, text)
    return value
