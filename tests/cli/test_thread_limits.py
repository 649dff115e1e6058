"""Where the system does not let the program make all its threads: said in order, never OpenMP's own end."""

import re
import resource

import pytest

MIB = 1 << 20


def limits(stack, memory):
    """Address space for some threads' stacks only; unlike a limit on processes it holds for root too."""

    def apply():
        resource.setrlimit(resource.RLIMIT_STACK, (stack * MIB, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        resource.setrlimit(resource.RLIMIT_AS, (memory * MIB, memory * MIB))

    return apply


@pytest.fixture(autouse=True)
def program_fits(attnscope):
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard not in (resource.RLIM_INFINITY, -1) and hard < 512 * MIB:
        pytest.skip(f"the hard limit of stacks is {hard} bytes")
    if attnscope("--help", preexec_fn=limits(64, 300)).code != 0:
        pytest.skip("the program does not start in 300 MiB of addresses, as under a sanitizer")


# Guards that eval asks for its threads before it works: one line with the number asked for and the number there
# is, exit 2, no file, with --weights too; and that this number is right: so many do, and give the same result.
@pytest.mark.parametrize("more", [(), ("--algorithm", "naive"), ("--weights",)])
def test_eval_says_how_many_can_be_had(attnscope, refused, tensors, more):
    tensors.random(heads=8, kv_heads=8)
    more = [*more, tensors.path("w")] if more == ("--weights",) else more
    limit = limits(64, 300)
    before = sorted(tensors.directory.iterdir())
    line = refused(tensors.arguments("--threads", "8", *more), "--threads 8: needs 8", preexec_fn=limit)
    assert sorted(tensors.directory.iterdir()) == before
    had = int(re.search(r", and (\d) can be had here \(a limit on processes or memory\)$", line)[1])
    assert 2 <= had < 8
    for threads in (1, had):
        done = attnscope(*tensors.arguments("--threads", threads, *more, out=f"o{threads}"), preexec_fn=limit)
        assert (done.code, done.err) == (0, "")
    assert tensors.path("o1").read_bytes() == tensors.path(f"o{had}").read_bytes()


# Guards that threads without work are not asked for: a single row needs none beside the caller.
def test_threads_without_work_are_not_needed(attnscope, tensors):
    tensors.random(batch=1, heads=1, kv_heads=1, queries=1, keys=5)
    done = attnscope(
        *tensors.arguments("--threads", "1024", "--algorithm", "naive"), preexec_fn=limits(64, 300)
    )
    assert (done.code, done.err) == (0, "")


# Guards that verify takes as many threads as there are and says so; alone, it names what it could not compare.
@pytest.mark.parametrize(("stack", "had"), [(64, "[2-7]"), (512, "1")])
def test_verify_takes_the_threads_there_are(attnscope, stack, had):
    done = attnscope("verify", "--quick", "--isa", "scalar", preexec_fn=limits(stack, 300))
    assert (done.code, done.err) == (0, "")
    assert re.search(rf"^threads: {had} can be had here", done.out, re.MULTILINE)
    alone = "not compared with several threads: only one can be had here"
    assert (alone in done.out) == (had == "1")
    assert re.search(r"^\d+ ok, 0 failed", done.out, re.MULTILINE)
    assert "can be had here" not in attnscope("verify", "--quick", "--isa", "scalar").out
