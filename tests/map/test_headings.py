"""The headings of the harness's headers: what is declared under the name of a file is defined in that file."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADING = re.compile(r"^/\* ---- (.*?) -*(?: ----)? ?\*/$", re.MULTILINE)
DECLARED = re.compile(r"^(?!static|typedef|return|#|/\*| ).*?\b(\w+)\([^;{]*\)[^;{]*;", re.MULTILINE)


def sections(header: Path) -> list[tuple[str, str]]:
    """Each heading with what stands below it."""
    parts = HEADING.split(header.read_text())
    return list(zip(parts[1::2], parts[2::2], strict=True))


def declared(text: str) -> list[str]:
    # Without comments and attributes, which stand like a call.
    return DECLARED.findall(re.sub(r"/\*.*?\*/|__attribute__\(\(.*?\)\)\n", "", text, flags=re.DOTALL))


@pytest.mark.parametrize(("name", "least"), [("bench.h", 20), ("session.h", 20), ("inputs.h", 5)])
def test_what_a_heading_says_is_true(name, least):
    """Guards whoever looks for a function: each stands under the file that has it, and each heading has some."""
    found, wrong = 0, []
    for heading, text in sections(ROOT / "bench" / name):
        files = re.findall(r"\b\w+\.cc?\b", heading)
        assert files, f"the heading '{heading}' names no file"
        sources = "".join((ROOT / "bench" / file).read_text() for file in files)
        for function in declared(text):
            found += 1
            # Defined: at the beginning of a line, and no declaration.
            if not re.search(rf"^[\w].*\b{function}\([^;{{]*\)\s*{{", sources, re.MULTILINE):
                wrong.append(f"{function} is not in {', '.join(files)}")
    assert found > least and not wrong, wrong


def test_a_wrong_heading_is_found():
    """Guards the reader of headers: declarations over several lines, pointers, and none of what is no function."""
    text = (
        "/* one(int a); */\nint two(int a,\n        int b);\nconst char *three(void); /* four(); */\n"
        "static inline bool five(int a) {\n    return six(a);\n}\nextern const int seven;\n"
        "typedef struct x {\n    void (*eight)(int a);\n} x;\n"
    )
    assert declared(text) == ["two", "three"]
