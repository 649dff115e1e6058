"""What `eval --explain` says of a run."""

import numpy as np
from attention_oracle import attended


def test_explain_says_how_many_threads_worked(attnscope, tensors):
    """Guards threads said to have worked that had no tile of queries to work on, and a number that OpenMP's variables
    change. (Threads that could not be made: test_thread_limits.py.)"""
    for heads, queries, threads in ((4, 200, "4"), (1, 1, "1")):
        tensors.random(batch=1, heads=heads, kv_heads=1, queries=queries, keys=300)
        for env in ({}, {"OMP_THREAD_LIMIT": "1"}):
            assert (
                attnscope(*tensors.arguments("--threads=4", "--explain"), env=env).values()["threads"]
                == threads
            )


def test_explain_says_what_the_files_held(attnscope, tensors):
    """Guards a report of dtype f32, that of the arithmetic's storage, as if it were that of float16 files."""
    tensors.random(queries=3, keys=5)
    tensors.save(q=np.ones((3, 4), np.float16), k=np.ones((5, 4), np.float64), v=np.ones((5, 4), np.float32))
    values = attnscope(*tensors.arguments("--explain")).values()
    said = [values[key] for key in ("q_file", "k_file", "v_file", "dtype")]
    assert said == ["float16", "float64", "float32", "f32"]


def test_explain_says_that_stride_is_not_gathered(attnscope, tensors):
    """As `show` does, with what was executed."""
    tensors.random(queries=70, keys=70)
    values = attnscope(*tensors.arguments("--pattern=stride=7", "--explain")).values()
    said = (
        f"{values['pairs_executed']} pairs for {values['pairs_useful']} attended, of {values['pairs_dense']}"
    )
    assert "stride" in values["note"] and said in values["note"]
    assert "note" not in attnscope(*tensors.arguments("--explain")).values()


def test_explain_says_how_keys_were_split(attnscope, tensors):
    """key_splits as in the results of bench: 1 where keys are not split."""
    for keys, splits in ((70, "1"), (4200, "3")):
        tensors.random(queries=2, keys=keys)
        assert attnscope(*tensors.arguments("--explain")).values()["key_splits"] == splits


def test_explain(attnscope, tensors, levels):
    """--explain says what ran and every option in force, as `key: value` lines."""
    tensors.random(queries=70, keys=70)
    tensors.save(mask=np.ones((70, 70), bool))
    options = ["--pattern=causal,sink=2,window=8", "--isa", levels[0], "--algorithm=flash", "--alibi"]
    options += ["--softcap=30", "--scale=0.25", "--dtype=bf16", f"--mask={tensors.path('mask')}"]
    values = attnscope(*tensors.arguments(*options, "--explain", "--threads=2")).values()
    pairs = int(attended("causal,sink=2,window=8", 70, 70).sum()) * 2 * 4
    expected = {
        "isa": levels[0],
        "algorithm": "flash",
        "threads": "2",
        "pattern": "causal,window=8,sink=2",
        "pairs_useful": str(pairs),
        "pairs_dense": str(70 * 70 * 8),
        "scale": "0.25",
        "softcap": "30",
        "q_file": "float32",
        "dtype": "bf16",
        "layout": "bhnd",
        "alibi": "yes",
        "mask": str(tensors.path("mask")),
        "bias": "none",
        "kv_lens": "none",
        "q_offsets": "none",
        "segments": "none",
        "sink_logit": "none",
    }
    assert {key: values.get(key) for key in expected} == expected
    assert int(values["pairs_useful"]) <= int(values["pairs_executed"]) <= int(values["pairs_dense"])
    assert int(values["workspace_bytes"]) > 0
    assert sum(int(values[f"tiles_{kind}"]) for kind in ("full", "partial", "absent")) > 0
