"""The object that `attnscope analyze` writes, against the tables of docs/analysis.md that describe it."""

import re
from pathlib import Path

import synthetic
from attnscope_py import analysis, record
from attnscope_py.reading import load_run

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "analysis.md"
ATOMS = {"text": str, "number": (int, float), "boolean": bool}


def tables():
    """Of each object of the document: what each field holds. A problem's fields stand in no other table."""
    text = DOCUMENT.read_text(encoding="utf-8")
    described = text[text.index("## The object\n") : text.index("## The tuning table\n")]
    parts = re.split(r"^### (.+)$", described, flags=re.MULTILINE)[1:]
    found = {}
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        listed = re.findall(r"^\| `(\w+)` \| ([\w -]+) \|", part, re.MULTILINE)
        assert len(listed) == len(dict(listed)) == part.count("\n| `"), name
        found[name] = (dict(listed), re.findall(r"And an? \*(\w+)\*", part))
    return {
        name: own | {k: v for other in others for k, v in found[other][0].items()}
        for name, (own, others) in found.items()
    }


def example():
    """Rows of which each kind of finding is made, so that no field is without one."""
    rows = synthetic.disturbed_sweep()
    for n in synthetic.LENGTHS:
        times = {"naive": 1.0 * n**2, "flash": 1000**0.5 * n**1.5}
        rows += [synthetic.row("causal", name, "avx512", n, [t] * 7) for name, t in times.items()]
        rows.append(synthetic.row("dense", "flash", "avx2", n, [3.0 * n**2] * 7, threads=2))
        rows.append(synthetic.row("dense", "flash", "avx2", n, [5.0 * n**2] * 7, extras="/softcap:30"))
        decoding = synthetic.row("dense", "flash", "avx2", n, [9.0 * n] * 7, queries=1)
        rows.append(decoding | {"id": decoding["id"].replace(f"nq{n}", "nq1"), "name": "decoding"})
        kernel = synthetic.row("dense", "softmax", "avx2", n, [1.0 * n] * 7)
        del kernel["pattern"]
        name = f"kernel/softmax/avx2/f32/n{n}"
        rows.append(kernel | {"id": name, "name": name})
    return rows


# Guards the document, table by table: each object that a file has holds the fields of its table and no other, each
# field what the table says, and each line of a table has an example.
def test_document_describes_every_object(tmp_path):
    listed = tables()
    assert len(listed) == 18
    caches = [{"type": "Unified", "level": 2, "size": 1 << 20, "num_sharing": 1}]
    path = synthetic.write(tmp_path / "r.json", example(), caches=caches)
    seen, null, used = set(), set(), {"analysis"}
    # Fields that are absent where they are not known.
    optional = set(listed["problem"])

    def check(value, holds, where):
        if holds.endswith(" or null"):
            if value is None:
                null.add(where)
                return
            return check(value, holds.removesuffix(" or null"), where)
        if holds.startswith("list of "):
            assert isinstance(value, list), where
            return [check(one, holds.removeprefix("list of "), where) for one in value]
        if holds in ATOMS:
            assert isinstance(value, ATOMS[holds]) and isinstance(value, bool) == (holds == "boolean"), where
            return
        used.add(holds)
        assert isinstance(value, dict), where
        fields = listed[holds]
        assert value.keys() <= fields.keys(), (holds, value.keys() - fields.keys())
        assert fields.keys() - value.keys() <= optional, (holds, fields.keys() - value.keys())
        for name, inner in value.items():
            seen.add((holds, name))
            check(inner, fields[name], (holds, name))

    check(record.analysis_object(analysis.sections([load_run(path)])), "analysis", "")
    assert used == listed.keys() - {"problem"}
    # Each of a problem's somewhere; of every other table all.
    named = {name for _, name in seen}
    missing = [
        (holds, name)
        for holds, fields in listed.items()
        for name in fields
        if (holds, name) not in seen and not (name in optional and name in named)
    ]
    assert missing == []
    assert {("regime", "exponent"), ("regime", "lower"), ("length", "faster")} <= null


# Guards the kinds of borders that the document names: they are all that there are.
def test_document_names_the_kinds_of_borders():
    line = re.search(
        r"^\| `kind` \| text \| what changes there: (.*) \|$", DOCUMENT.read_text(), re.MULTILINE
    )
    source = (Path(record.__file__).parent / "regimes.py").read_text(encoding="utf-8")
    made = set(re.findall(r'Border\([^"]*?"(\w+)"', source)) | set(
        re.findall(r'^        "(\w+)",$', source, re.M)
    )
    assert set(re.findall(r"`(\w+)`", line[1])) == made == {"overhead", "window", "cache"}
