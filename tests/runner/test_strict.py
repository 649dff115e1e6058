"""The reader of JSON that tests of several directories share: it fails where a file is no JSON."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))

from strict import strict  # noqa: E402


# Guards what rests on it: a reader that lets everything pass guards nothing.
@pytest.mark.parametrize(
    "text", ['{"a": NaN}', "[Infinity]", "[-Infinity]", '{"a": 1, "b": {"c": 1, "c": 1}}', "[1"]
)
def test_refused(text):
    with pytest.raises((AssertionError, ValueError)):
        strict(text)


def test_taken():
    assert strict('{"a": [1, 2.5, null], "b": {"a": true}}') == {"a": [1, 2.5, None], "b": {"a": True}}
