"""Where the system does not let the program make all its threads: said in order, never OpenMP's own end."""

import os
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


# Guards the thread that cannot be made, whatever of the memory is left, wherever the limit falls: eval goes on with
# those it got, says so in one line, --weights too, and gives the bits that one thread gives; or there is no memory
# for its tensors and workspaces, and it says that.
@pytest.mark.parametrize("more", [(), ("--algorithm", "naive"), ("--weights",)])
def test_eval_goes_on_with_what_it_has(attnscope, tensors, more):
    tensors.random(heads=8, kv_heads=8, queries=200, keys=300)
    more = [*more, tensors.path("w")] if more == ("--weights",) else more
    assert attnscope(*tensors.arguments("--threads", 1, *more, out="o1")).code == 0
    seen = set()
    for memory in range(100, 700, 50):
        done = attnscope(
            *tensors.arguments("--threads", 8, "--explain", *more), preexec_fn=limits(64, memory)
        )
        if done.code == 2:
            assert done.err.count("\n") == 1 and re.search("memory|shared librar", done.err)
            continue
        if done.code == 127 and "shared librar" in done.err:
            continue
        assert done.code == 0
        had = int(done.values()["threads"])
        seen.add(had)
        warned = re.findall(
            r"^.*--threads 8: only (\d) could be had here \(a limit on .*$", done.err, re.MULTILINE
        )
        # With --weights, which needs other memory, fewer may be had of the weights than of the output.
        assert len(warned) == done.err.count("\n") <= 1
        assert all(int(n) <= had for n in warned) and (warned or had == 8)
        assert "--weights" in more or not warned or int(warned[0]) == had
        assert tensors.path("out").read_bytes() == tensors.path("o1").read_bytes()
    assert 8 in seen and len(seen) > 2


# Guards the limit on processes, which does not bind root: verify as another user, who may have so many tasks; and that
# it says of the cases that asked for several threads, and of no other, that they were not compared with one.
@pytest.mark.parametrize("most", [1, 3])
def test_limit_on_processes(attnscope, most):
    if os.getuid() != 0:
        pytest.skip("needs root, to become a user without processes")

    def apply():
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.setgroups([])
        os.setgid(65533)
        os.setuid(65533)

    if attnscope("--help", preexec_fn=apply).code != 0:
        pytest.skip("another user may not run the program here")
    done = attnscope("verify", "--quick", "--isa", "scalar", preexec_fn=apply)
    assert (done.code, done.err) == (0, "") and f"threads: only {most} could be had here" in done.out
    alone = re.findall(r"^(?:refused: )?.*not compared with several threads.*$", done.out, re.MULTILINE)
    of = "all options|threads"
    assert (len(alone) > 0) == (most == 1) and all(re.search(of, line) for line in alone), alone


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
    assert re.search(rf"^threads: only {had} could be had here", done.out, re.MULTILINE)
    alone = "not compared with several threads: only one could be had here"
    assert (alone in done.out) == (had == "1")
    assert re.search(r"^\d+ ok, 0 failed", done.out, re.MULTILINE)
    assert "could be had here" not in attnscope("verify", "--quick", "--isa", "scalar").out
