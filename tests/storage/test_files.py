"""The one way files are written, whatever stands where they go."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import InputError, WriteError
from holdfast.runs.store import Store
from holdfast.storage import files


def test_threads_that_write_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    file = tmp_path / "file"
    contents = [bytes([number]) * 10_000 for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        written = [threads.submit(files.write, file, content) for content in contents * 25]
    for each in written:
        each.result()
    assert file.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_has_the_permissions_that_the_umask_gives(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    files.write(tmp_path / "ours", b"content")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link, chain = tmp_path / "elsewhere" / "file", tmp_path / "link", tmp_path / "chain"
    link.symlink_to("elsewhere/file")
    chain.symlink_to(link)
    for content in (b"new", b"again"):  # at first it leads to nothing
        files.write(chain, content)
        assert chain.is_symlink() and link.is_symlink() and target.read_bytes() == content
    assert list(target.parent.iterdir()) == [target]
    endless = tmp_path / "endless"
    endless.symlink_to(endless)
    with pytest.raises(WriteError, match="endless cannot be written"):
        files.write(endless, b"content")
    assert endless.is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write(pipe, b"content")
    read = os.read(reader, 100)
    os.close(reader)
    assert read == b"content"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device here")
def test_a_device_stays_and_its_failure_is_ours(tmp_path: Path) -> None:
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    with pytest.raises(WriteError, match="No space left"):
        files.write(link, b"content")
    assert link.is_symlink() and stat.S_ISCHR(link.stat().st_mode)


PRINTS = """
import sys
from pathlib import Path
from holdfast.storage import files
print("before")
files.output(Path(sys.argv[1]), b"content\\n")
print("after")
"""


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
@pytest.mark.parametrize("through", ["a pipe", "a file"])
def test_what_is_printed_before_and_after_an_output_stays(name: str, through: str, tmp_path: Path) -> None:
    if not Path("/dev/stdout").exists():
        pytest.skip("there is no such device here")
    command = [sys.executable, "-c", PRINTS, name]
    if through == "a pipe":
        shown = subprocess.run(command, capture_output=True, check=True).stdout
    else:
        with open(tmp_path / "shown", "wb") as file:
            file.write(b"")
            subprocess.run(command, stdout=file, check=True)
        shown = (tmp_path / "shown").read_bytes()
    assert shown == b"before\ncontent\nafter\n"


def test_other_outputs_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files.output(Path("file"), b"content")
    assert Path("file").read_bytes() == b"content" and os.listdir() == ["file"]


def test_what_grew_and_is_closed_does_not_touch_the_file_that_has_its_number_now(tmp_path: Path) -> None:
    closed = files.Appendix(tmp_path / "log", b"beginning")
    closed.append(b", more")
    closed.close()
    with open(tmp_path / "other", "wb", buffering=0) as other:
        assert other.fileno() == closed._handle
        other.write(b"of somebody else, and longer than the log")
        closed.end()
        with pytest.raises(WriteError):
            closed.append(b", and more")
    assert (tmp_path / "other").read_bytes() == b"of somebody else, and longer than the log"
    assert (tmp_path / "log").read_bytes() == b"beginning, more"


@pytest.mark.parametrize("folder", ["", ".", "..", "/", "folder", "folder/", "link"])
def test_a_folder_is_no_place_for_a_file(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "folder").mkdir(parents=True)
    (tmp_path / "here" / "link").symlink_to("folder")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(WriteError, match="Is a directory"):
        files.write(Path(folder), b"content")
    assert sorted(os.listdir()) == ["folder", "link"] and not os.listdir("folder")


@pytest.mark.parametrize("by", ["its name", "a link"])
@pytest.mark.parametrize("name", ["runs.sqlite", "runs.sqlite-wal", "runs.claims", "birds/learner", "birds/log.1"])
def test_an_output_does_not_take_the_place_of_what_was_kept(name: str, by: str, tmp_path: Path) -> None:
    Store(tmp_path / "runs.sqlite").open()
    for beside in ("runs.sqlite-wal", "runs.claims"):
        (tmp_path / beside).touch()
    files.output(tmp_path / "runs.json", b"content")
    files.output(tmp_path / "runs", b"content")
    holdfast.open(tmp_path / "birds", holdfast.mlp((2,)), "er").close()
    file, before = tmp_path / name, (tmp_path / name).read_bytes()
    if by == "a link":
        (tmp_path / "link").symlink_to(file)
    with pytest.raises(InputError, match="write to another place"):
        files.output(tmp_path / "link" if by == "a link" else file, b"content")
    assert file.read_bytes() == before
