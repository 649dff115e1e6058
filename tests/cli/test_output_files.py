"""Output files are whole or not there, whatever fails."""

import itertools
import os
import resource
import subprocess
import sys

import numpy as np
import pytest

root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def files(directory):
    return sorted(path.name for path in directory.rglob("*"))


@pytest.mark.parametrize("option", ["out", "lse", "mask-out", "weights"])
def test_places_that_cannot_be_written(refused, tensors, option):
    """A directory that is not there, a directory, a device and a full device are refused by name, and
    no other output is left behind."""
    tensors.random()
    before = files(tensors.directory)
    for place in ("nowhere/x.npy", ".", "q.npy/x.npy", "/dev/full", "/dev/null", "nowhere/", ""):
        path = place if place.startswith("/dev/") or not place else f"{tensors.directory}/{place}"
        arguments = [a for a in tensors.arguments() if not str(a).startswith(f"--{option}=")]
        refused([*arguments, f"--{option}={path}"], f"{path}")
        assert files(tensors.directory) == before
    assert os.path.exists("/dev/full") and not os.path.isfile("/dev/full")


# Guards that nothing printed is lost: a file that replaces the one behind standard output, however that is named,
# takes what was and will be printed with it. What is open to be read only, as flock(1) leaves it, may be replaced.
@pytest.mark.parametrize("option", ["out", "lse", "weights"])
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/{0}", "/proc/self/fd/{0}", "log", "link"])
@pytest.mark.parametrize("descriptor", [1, 2, 9])
def test_file_that_is_open_is_not_replaced(attnscope, tensors, option, name, descriptor):
    if name.startswith("/proc") and not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system has no /proc")
    if name == "/dev/stdout" and descriptor != 1:
        name = "/dev/fd/{0}"
    tensors.random()
    (tensors.directory / "link").symlink_to("log")
    arguments = [a for a in tensors.arguments("--explain") if not str(a).startswith(f"--{option}=")]
    arguments.append(f"--{option}={name.format(descriptor)}")
    before = files(tensors.directory)
    with open(tensors.directory / "log", "w") as log:
        log.write("kept")
        log.flush()
        redirect = lambda: os.dup2(log.fileno(), descriptor)  # noqa: E731
        how = {"cwd": tensors.directory, "preexec_fn": redirect, "close_fds": False}
        outcome = attnscope(*arguments, **how)
    assert outcome.code == 2 and outcome.out == ""
    text = (tensors.directory / "log").read_text() if descriptor == 2 else "kept" + outcome.err
    assert text.startswith("kept" + f"attnscope eval: cannot write {name.format(descriptor)}: ")
    assert text.endswith("; name another file\n") and text.count("\n") == 1
    assert files(tensors.directory) == sorted([*before, "log"])
    assert descriptor == 2 or (tensors.directory / "log").read_text() == "kept"


def test_file_that_is_open_to_be_read_is_replaced(attnscope, tensors):
    tensors.random()
    tensors.path("out").write_text("old")
    with open(tensors.path("out")) as held:
        outcome = attnscope(*tensors.arguments(), pass_fds=[held.fileno()])
    assert outcome.code == 0 and tensors.load("out").shape == (2, 4, 33, 8)


@root
def test_directory_without_permission(refused, tensors):
    """A directory that may not be written is refused before anything is computed."""
    tensors.random()
    locked = tensors.directory / "locked"
    locked.mkdir(mode=0o500)
    refused([*tensors.arguments("--lse", locked / "x.npy")], "Permission denied")


@root
def test_write_protected_file(refused, tensors):
    """A file that its owner has write-protected is not replaced."""
    tensors.random()
    tensors.path("out").write_text("kept")
    tensors.path("out").chmod(0o400)
    refused(tensors.arguments(), "Permission denied")
    assert tensors.path("out").read_text() == "kept"


def test_file_size_limit(tensors, refused):
    """Where the disk is full (here: past the limit on file sizes) the error is one line, the file that
    was there stays as it was, and nothing else is left."""
    tensors.random(queries=2000, value_dim=64)
    tensors.path("out").write_text("kept")
    before = files(tensors.directory)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # noqa: E731
    refused(tensors.arguments(f"--lse={tensors.path('lse')}"), tensors.path("out"), preexec_fn=limit)
    assert tensors.path("out").read_text() == "kept"
    assert files(tensors.directory) == before


def test_full_disk(tensors, refused):
    """A file system without room: "No space left", and nothing is left on it."""
    disk = tensors.directory / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        tensors.random(queries=2000, value_dim=64)
        arguments = [a for a in tensors.arguments() if not str(a).startswith("--out=")]
        refused([*arguments, f"--out={disk / 'o.npy'}"], "No space left")
        assert files(disk) == []
        refused([*tensors.arguments(), f"--lse={disk / 'l.npy'}", f"--mask-out={disk / 'm.npy'}"], "No space")
        assert files(disk) == []
        assert not tensors.path("out").exists()  # it had been written, but not everything
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_broken_standard_output(attnscope, tensors):
    """With --explain to a full device nothing is written: the files go with the lines."""
    tensors.random()
    with open("/dev/full", "w") as full:
        outcome = attnscope(
            *tensors.arguments("--explain"), capture_output=False, stdout=full, stderr=subprocess.PIPE
        )
    assert outcome.code == 2
    assert "standard output" in outcome.err and outcome.err.count("\n") == 1
    assert not tensors.path("out").exists()


def test_same_file_twice(refused, tensors):
    """An output may be neither an input nor another output, by whatever path it is named."""
    q, _, _ = tensors.random()
    (tensors.directory / "link.npy").symlink_to(tensors.path("q"))
    for name in ("q.npy", "link.npy", "../" + tensors.directory.name + "/q.npy"):
        arguments = [a for a in tensors.arguments() if not str(a).startswith("--out=")]
        refused([*arguments, f"--out={tensors.directory / name}"], name, "input")
    refused(tensors.arguments(f"--lse={tensors.directory}/./out.npy"), "two outputs")
    np.testing.assert_array_equal(tensors.load("q"), q)
    tensors.save(blocks=np.ones((5, 9), bool))
    blocks = tensors.path("blocks")
    refused(tensors.arguments(f"--pattern=blocks={blocks}:8", f"--weights={blocks}"), "blocks.npy", "input")


def test_replaced_file(attnscope, tensors):
    """An existing file is replaced, through a symbolic link too, with the usual permissions."""
    tensors.random()
    target = tensors.directory / "target.npy"
    target.write_text("old")
    target.chmod(0o644)
    tensors.path("out").symlink_to(target)
    mask = os.umask(0o022)
    try:
        assert attnscope(*tensors.arguments()).code == 0
    finally:
        os.umask(mask)
    assert tensors.path("out").is_symlink()
    assert np.load(target).shape == (2, 4, 33, 8)
    assert target.stat().st_mode & 0o777 == 0o644
    assert files(tensors.directory) == ["k.npy", "out.npy", "q.npy", "target.npy", "v.npy"]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("subcommand", ["eval", "show", "bench"])
def test_links_are_followed(attnscope, tensors, subcommand, there):
    """A link stays, whether what it leads to is there or not: over other links, from another directory, with a
    relative or an absolute path."""
    tensors.random()
    place, elsewhere = tensors.directory, tensors.directory / "elsewhere"
    elsewhere.mkdir()
    (place / "out.npy").symlink_to("elsewhere/second.npy")
    (elsewhere / "second.npy").symlink_to(elsewhere / "third.npy")
    (elsewhere / "third.npy").symlink_to("../target.npy")
    if there:
        (place / "target.npy").write_text("old")
    arguments = {
        "eval": tensors.arguments(),
        "show": ["show", "--svg", place / "out.npy"],
        "bench": [
            "bench",
            "--n=16",
            "--no-roofline",
            "--benchmark_min_time=0.002s",
            "--out",
            place / "out.npy",
        ],
    }
    outcome = attnscope(*arguments[subcommand])
    assert outcome.code == 0, outcome.err
    links = (place / "out.npy", elsewhere / "second.npy", elsewhere / "third.npy")
    assert all(link.is_symlink() for link in links)
    assert (place / "target.npy").is_file() and not (place / "target.npy").is_symlink()
    assert (place / "target.npy").read_bytes() not in (b"", b"old")
    assert files(place) == sorted(
        ["elsewhere", "second.npy", "third.npy", "k.npy", "out.npy", "q.npy", "target.npy", "v.npy"]
    )


def test_links_to_nowhere(refused, tensors):
    """A link to where no file can be made is refused like that place, and stays; so does a loop of links."""
    tensors.random()
    out = tensors.path("out")
    for target, said in (
        ("nowhere/x.npy", "No such file"),
        ("out.npy", "symbolic links"),
        ("new/", "no file"),
    ):
        out.symlink_to(target)
        refused(tensors.arguments(), f"cannot write {out}: ", said)
        assert out.is_symlink()
        out.unlink()
    out.symlink_to("lse.npy")
    refused(tensors.arguments(f"--lse={tensors.path('lse')}"), "two outputs")


def test_as_many_links_as_the_system_follows(attnscope, tensors):
    """A chain of links is followed where the system follows it, to the last: what it leads to is made, or was
    there; one link more is refused, and all stay."""
    tensors.random()
    chain = [tensors.directory / f"link{i}" for i in range(44)]
    for earlier, link in itertools.pairwise(chain):
        link.symlink_to(earlier.name)
    made, *links = chain
    arguments = [a for a in tensors.arguments() if not str(a).startswith("--out=")]
    followed = set()
    for there, link in itertools.product((False, True), links[36:]):
        made.write_text("old")
        follows = link.exists()  # False where the system says ELOOP
        if not there:
            made.unlink()
        outcome = attnscope(*arguments, "--out", link)
        assert outcome.code == (0 if follows else 2), (link, outcome.err)
        assert follows or "symbolic links" in outcome.err
        assert made.exists() == (follows or there) and all(link.is_symlink() for link in links)
        followed.add(follows)
    assert followed == {False, True}


@pytest.mark.parametrize("linked", [False, True])
def test_replaced_file_keeps_its_mode(attnscope, tensors, linked):
    """A file that others may not read, or may write, stays so when it is replaced."""
    tensors.random()
    target = tensors.path("target" if linked else "out")
    target.write_text("old")
    if linked:
        tensors.path("out").symlink_to(target)
    for mode in (0o600, 0o664):
        target.chmod(mode)
        assert attnscope(*tensors.arguments()).code == 0
        assert target.stat().st_mode & 0o777 == mode


def test_relative_path_and_long_name(attnscope, tensors):
    """A bare name is in the working directory; a name of the greatest length works."""
    tensors.random()
    name = "x" * 251 + ".npy"
    arguments = [a for a in tensors.arguments() if not str(a).startswith("--out=")]
    outcome = attnscope(*arguments, "--out", name, cwd=tensors.directory)
    assert outcome.code == 0, outcome.err
    assert np.load(tensors.directory / name).shape == (2, 4, 33, 8)


def test_interrupted(tensors):
    """A signal while files are written leaves no temporary file."""
    from conftest import program

    tensors.random(batch=1, heads=1, kv_heads=1, queries=4000, keys=4000)
    before = files(tensors.directory)
    arguments = tensors.arguments(f"--mask-out={tensors.path('mask')}")
    process = subprocess.Popen([program(), *map(str, arguments)], stderr=subprocess.DEVNULL)
    # The mask of 16 million pairs takes long enough to meet it while its file is open.
    while process.poll() is None and files(tensors.directory) == before:
        pass
    process.terminate()
    process.wait()
    if process.returncode == 0:
        pytest.skip("it was done before the signal came")
    assert files(tensors.directory) == before
    assert sys.platform != "linux" or process.returncode == -15
