"""The map in CONTRIBUTING.md ("may use") is what the sources do.

Guards the direction in which things depend on each other: a kernel that learns of attention, a measurement that
needs the command, two directories that need each other, or a source that is compiled in two places."""

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = "everything"


def read_map() -> dict[str, list[str]]:
    """Directory: what its files may include, as names of directories ("kernels/") and of single files."""
    uses = {}
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 5 and cells[1].startswith("`"):
            name = cells[1].strip("`").split("/")[0]
            uses[name] = [EVERYTHING] if cells[3] == EVERYTHING else re.findall(r"`([^`]+)`", cells[3])
    return uses


MAP = read_map()


@functools.cache
def sources() -> list[Path]:
    kinds = (".c", ".h", ".cc", ".def")
    return sorted(p for name in MAP for p in (ROOT / name).rglob("*") if p.suffix in kinds)


def included(source: Path) -> list[str]:
    """What a source includes of ours, as paths from the root; the public header is "attnscope.h"."""
    names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', source.read_text(), re.MULTILINE)
    paths = []
    for name in names:
        beside = source.parent / name
        # The compiler looks beside the source first. What is in neither place is made by the build, for its own directory.
        if beside.is_file():
            paths.append(beside.resolve().relative_to(ROOT).as_posix())
        elif name == "attnscope.h" or (ROOT / name).is_file():
            paths.append(name)
    return paths


# The libraries that are not everywhere, by the beginning of their headers' names.
LIBRARIES = {"jansson": "jansson.h", "hwloc": "hwloc", "OpenMP": "omp.h", "Google Benchmark": "benchmark/"}


@pytest.mark.parametrize("directory", MAP)
def test_a_directory_names_the_libraries_it_uses(directory):
    """Both ways: what it includes is named in its row, and what the row names is included."""
    (row,) = [
        line
        for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines()
        if line.startswith(f"| `{directory}/")
    ]
    cell = row.split("|")[3]
    text = "\n".join(s.read_text() for s in sources() if s.relative_to(ROOT).parts[0] == directory)
    for library, header in LIBRARIES.items():
        used = re.search(rf"^\s*#\s*include\s+<{re.escape(header)}", text, re.MULTILINE) is not None
        assert EVERYTHING in cell or used == (library in cell), library


@pytest.mark.parametrize("directory", MAP)
def test_a_directory_includes_only_what_the_map_allows(directory):
    allowed = MAP[directory]
    wrong = []
    for source in sources():
        if source.relative_to(ROOT).parts[0] != directory or EVERYTHING in allowed:
            continue
        for path in included(source):
            own = path == "attnscope.h" or path.startswith(directory + "/")
            if not own and not any(
                path == use or (use.endswith("/") and path.startswith(use)) for use in allowed
            ):
                wrong.append(f"{source.relative_to(ROOT)} includes {path}")
    assert not wrong


def test_directories_do_not_need_each_other():
    """Each row uses directories of rows above it alone; a single file, such as a list, may stand below."""
    names = list(MAP)
    wrong = [
        f"{name} uses {use}"
        for i, name in enumerate(names)
        for use in MAP[name]
        if use.endswith("/") and use.rstrip("/") not in names[:i]
    ]
    assert not wrong


def test_every_directory_that_is_built_is_in_the_map():
    assert len(sources()) > 100
    assert {p.parent.name for p in ROOT.glob("*/meson.build")} <= set(MAP)


def test_a_directory_builds_its_own_sources_only():
    builds = [*ROOT.glob("*/meson.build"), *ROOT.glob("tests/*/meson.build")]
    assert not [str(p) for p in builds if re.search(r"\.\./[^']*\.cc?'", p.read_text())]
