"""The documents: what they point to exists; the layout of all text; the files that git holds."""

import re
from pathlib import Path

import pytest
from testrunner.commands import output_of
from testrunner.lint import text_faults, tracked_files
from testrunner.suites import ROOT, c_programs

DOCUMENTS = [name for name in tracked_files() if name.endswith(".md")]


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


# Guards that there are documents to look at.
def test_documents_are_found():
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/numerics.md"} <= set(DOCUMENTS)


# Guards lines that a terminal breaks, a missing newline at the end, and spaces that nobody sees.
def test_text_is_laid_out():
    assert not text_faults(tracked_files())


# Guards the search itself: each fault, and what may be wide.
@pytest.mark.parametrize(
    ("name", "text", "faults"),
    [
        ("a.md", "fine\n\nfine\n", 0),
        ("a.md", "", 0),
        ("a.md", "no newline", 1),
        ("meson.build", "two newlines\n\n", 1),
        ("a.sh", "space \n\t\n", 2),
        ("a.build", "x" * 110 + "\n" + "x" * 111 + "\n", 1),
        ("a.md", "| " + "x" * 111 + "\n", 0),
        ("a.wrap", "url = https://" + "x" * 111 + "\n", 0),
        ("a.svg", "x" * 111 + " ", 0),
    ],
)
def test_faults_of_text(tmp_path, name, text, faults):
    (tmp_path / name).write_text(text)
    assert len(text_faults([name], tmp_path)) == faults


# Guards links to files that were moved, and to headings that were renamed.
@pytest.mark.parametrize("name", DOCUMENTS)
def test_links(name):
    text = text_of(name)
    headings = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ ([\w ]+)$", text, re.MULTILINE)}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings
        elif not target.startswith("https://"):
            assert (ROOT / name).parent.joinpath(target).exists(), target


# Guards the names of files and directories, of tests above all: each choice of docs/numerics.md rests on one.
@pytest.mark.parametrize("name", DOCUMENTS)
def test_named_files_exist(name):
    tests = {path.name for path in (ROOT / "tests").rglob("test_*")}
    text = text_of(name)
    assert set(re.findall(r"`(test_\w+\.(?:c|py))`", text)) <= tests
    directories = "attention|bench|cli|common|dispatch|docs|include|kernels|reference|scripts|tests"
    for path in re.findall(rf"`((?:{directories})/[\w./-]*)`", text):
        assert Path(ROOT / path).exists(), path


def named_in_files(text: str) -> list[tuple[str, str]]:
    """What a text says is in a file, as name and path: "`NAME` in `a/b.c`", "`f()` and `g()` in `a/b.c`"."""
    found = []
    for names, path in re.findall(
        r"((?:`\w+(?:\(\))?`(?:, | and )?)+)\s+in\s+`([\w.-]+/[\w./-]+\.\w+)`", text
    ):
        found += [(name, path) for name in re.findall(r"`(\w+(?:\(\))?)`", names)]
    return found


# Guards the names of functions and lists in a file: who adds a level is sent to them.
@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_named_in_a_file_is_there(name):
    for word, path in named_in_files(text_of(name)):
        pattern = rf"\b{word[:-2]}\(" if word.endswith("()") else rf"\b{word}\b"
        assert re.search(pattern, (ROOT / path).read_text()), f"{word} in {path}"


# Guards that there are such names to look at, and what is read of them.
def test_names_in_files_are_found():
    named = named_in_files(text_of("CONTRIBUTING.md"))
    assert ("fault()", "tests/dispatch/test_objects_arm.py") in named and len(named) >= 6
    assert named_in_files("the `A` and `b()` in\n`x/y.py`; `c` in `d`, and `e` is in `f/g.c`") == [
        ("A", "x/y.py"),
        ("b()", "x/y.py"),
    ]


def meson_tests(text: str) -> list[str]:
    """The tests that the `meson test` commands of a text name: words that are no options or their values."""
    commands = re.findall(r"\bmeson test((?: +[\w./-]+)*)", text)
    words = [re.sub(r" -C +\S+", "", command).split() for command in commands]
    return [word for line in words for word in line if not word.startswith("-")]


# Guards the names of tests in commands: meson finds none under a name that is not there, and says little.
@pytest.mark.parametrize("name", DOCUMENTS)
def test_named_meson_tests_exist(name):
    assert set(meson_tests(text_of(name))) <= c_programs()


# Guards that there are such commands to look at, and what is read of one.
def test_meson_tests_are_found():
    assert "kernels_exp" in meson_tests(text_of("CONTRIBUTING.md"))
    assert meson_tests("`meson test -C build exp -v` (meson test)\n    meson test plan  # all") == [
        "exp",
        "plan",
    ]


# Guards against files in the tree that are made on each machine, as a link to a .venv elsewhere: git replaces the
# real one with it.
def test_no_ignored_file_is_tracked():
    assert output_of(["git", "-C", ROOT, "ls-files", "--cached", "--ignored", "--exclude-standard"]) == ""
