import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from holdfast.datasets import get, load
from holdfast.datasets.get import data_root
from holdfast.errors import DataError, UnknownName
from tests.threads import beside

from .official import Server, official


def visible(root: Path) -> list[str]:
    return sorted(each.name for each in root.iterdir() if not each.name.startswith("."))


def test_a_download_is_verified_unpacked_and_leaves_nothing_else(root: Path) -> None:
    said: list[str] = []
    get.get("cifar100", root, say=said.append)
    assert load("cifar100", root).train_x.shape == (9, 3, 32, 32)
    assert sorted(each.name for each in root.iterdir()) == [".cifar100.lock", "cifar-100-binary"]
    assert len(said) == 1
    assert "verified" in said[0]


def test_data_that_are_there_are_not_downloaded_again(root: Path, server: Server) -> None:
    said: list[str] = []
    get.get("cifar100", root, say=said.append)
    get.get("cifar100", root, say=said.append)
    assert "already" in said[-1]
    assert len(server.requested) == 1


def test_damaged_data_are_replaced(root: Path) -> None:
    get.get("cifar100", root)
    (root / "cifar-100-binary/test.bin").write_bytes(b"")
    said: list[str] = []
    get.get("cifar100", root, say=said.append)
    assert "test.bin has 0 bytes" in said[0]
    get.verify("cifar100", root)


@pytest.mark.parametrize("content", [b"no archive at all", b"\x1f\x8b\x08\x00 and no gzip"])
def test_an_archive_that_does_not_unpack_shows_nothing(
    root: Path, server: Server, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    server.content = content
    official(monkeypatch, server.url, content)
    with pytest.raises(DataError, match="cannot be unpacked"):
        get.get("cifar100", root)
    assert not (root / "cifar-100-binary").exists()


def test_an_archive_cannot_write_outside(root: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        member = tarfile.TarInfo("../../escaped.txt")
        member.size = 4
        tar.addfile(member, BytesIO(b"evil"))
    server.content = content.getvalue()
    official(monkeypatch, server.url, server.content)
    with pytest.raises(DataError, match="cannot be unpacked"):
        get.get("cifar100", root)
    assert not list(root.parent.rglob("escaped.txt"))


def test_an_archive_of_something_else_is_refused(root: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz"):
        pass
    server.content = content.getvalue()
    official(monkeypatch, server.url, server.content)
    with pytest.raises(DataError, match="is not cifar100: cifar100 is not in"):
        get.get("cifar100", root)
    assert not (root / "cifar-100-binary").exists()


def test_two_gets_at_once_share_one_download(root: Path, server: Server) -> None:
    with beside(*[lambda: get.get("cifar100", root)] * 4):
        pass
    assert len(server.requested) == 1
    get.verify("cifar100", root)


def test_what_a_killed_get_left_behind_does_no_harm(root: Path) -> None:
    (root / ".cifar100.partial/cifar-100-binary").mkdir(parents=True)
    get.get("cifar100", root)
    get.verify("cifar100", root)


@pytest.mark.parametrize("inside", ["", "cifar-100-binary"])
def test_a_folder_can_be_the_source(tmp_path: Path, root: Path, inside: str, server: Server) -> None:
    get.get("cifar100", root, tmp_path / "origin" / inside)
    get.verify("cifar100", root)
    assert not server.requested


def test_the_official_archive_can_be_the_source(tmp_path: Path, root: Path, archive: bytes) -> None:
    file = tmp_path / "brought.tar.gz"
    file.write_bytes(archive)
    get.get("cifar100", root, str(file))
    get.verify("cifar100", root)
    assert file.exists()


def test_sources_that_are_not_the_data_are_refused(tmp_path: Path, root: Path) -> None:
    other = tmp_path / "other.tar.gz"
    other.write_bytes(b"other")
    with pytest.raises(DataError, match=r"other\.tar\.gz has the md5 \w+; the official cifar\.tar\.gz has"):
        get.get("cifar100", root, other)
    with pytest.raises(DataError, match="nowhere does not exist"):
        get.get("cifar100", root, tmp_path / "nowhere")
    (tmp_path / "origin/cifar-100-binary/train.bin").write_bytes(b"short")
    with pytest.raises(DataError, match=r"is not cifar100: .*train\.bin has 5 bytes"):
        get.get("cifar100", root, tmp_path / "origin")
    (tmp_path / "origin/cifar-100-binary/train.bin").unlink()
    with pytest.raises(DataError, match=r"train\.bin is missing: the folder must hold train\.bin, test\.bin"):
        get.get("cifar100", root, tmp_path / "origin")
    assert visible(root) == []


def test_a_source_that_is_not_there_is_a_mistake_also_where_the_data_are(tmp_path: Path, root: Path) -> None:
    said: list[str] = []
    get.get("cifar100", root, say=said.append)
    with pytest.raises(DataError, match="nowhere does not exist: give cifar"):
        get.get("cifar100", root, tmp_path / "nowhere", say=said.append)
    get.get("cifar100", root, tmp_path / "origin", say=said.append)
    assert len(said) == 2 and said[1].endswith(f"verified; {tmp_path / 'origin'} was not needed")


def test_fashion_needs_no_getting(tmp_path: Path) -> None:
    said: list[str] = []
    get.get("fashion", tmp_path / "root", say=said.append)
    assert said == ["fashion is part of holdfast: there is nothing to get"]


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'cifar10'"):
        get.get("cifar11", tmp_path)


def test_a_root_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cifar10 cannot be written to"):
        get.get("cifar10", tmp_path / "file")


@pytest.mark.parametrize(
    ("option", "environment", "expected"),
    [
        ("/given", {"HOLDFAST_DATA": "/variable", "XDG_CACHE_HOME": "/cache"}, "/given"),
        (None, {"HOLDFAST_DATA": "/variable", "XDG_CACHE_HOME": "/cache"}, "/variable"),
        (None, {"XDG_CACHE_HOME": "/cache"}, "/cache/holdfast"),
        (None, {}, "/home/me/.cache/holdfast"),
        ("~/data", {}, "/home/me/data"),
    ],
)
def test_the_data_root_is_the_first_that_is_set(
    monkeypatch: pytest.MonkeyPatch, option: str | None, environment: dict[str, str], expected: str
) -> None:
    for name in ("HOLDFAST_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **environment}.items():
        monkeypatch.setenv(name, value)
    assert data_root(option) == Path(expected)
