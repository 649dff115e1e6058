"""JSON as the standard defines it, for tests of all that writes some. Independent of the product's own reader."""

import json


def strict(text):
    """Parses JSON; AssertionError for NaN, Infinity and repeated keys, which Python's parser lets pass."""

    def constant(name):
        raise AssertionError(f"{name} is no JSON")

    def unique(pairs):
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), f"repeated key in {keys}"
        return dict(pairs)

    return json.loads(text, parse_constant=constant, object_pairs_hook=unique)
