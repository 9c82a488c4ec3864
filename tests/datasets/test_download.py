from io import BytesIO
from pathlib import Path

import pytest

from holdfast.datasets import download, get
from holdfast.errors import DataError

from .official import Server, official


def visible(root: Path) -> list[str]:
    return sorted(each.name for each in root.iterdir() if not each.name.startswith("."))


def half_downloaded(root: Path, content: bytes) -> Path:
    root.mkdir()
    part = root / "cifar.tar.gz.part"
    part.write_bytes(content)
    return part


def test_a_partial_download_is_resumed(root: Path, server: Server, archive: bytes) -> None:
    half_downloaded(root, archive[:1000])
    get.get("cifar100", root)
    assert server.requested == ["bytes=1000-"]
    get.verify("cifar100", root)


def test_a_server_without_ranges_sends_all_anew(root: Path, server: Server, archive: bytes) -> None:
    server.knows_ranges = False
    half_downloaded(root, archive[:1000])
    get.get("cifar100", root)
    get.verify("cifar100", root)


def test_a_complete_partial_download_needs_nothing_more(root: Path, archive: bytes) -> None:
    half_downloaded(root, archive)
    get.get("cifar100", root)
    get.verify("cifar100", root)


def test_a_connection_cut_in_the_middle_is_taken_up_again(root: Path, server: Server) -> None:
    server.cut_after = [2000]
    get.get("cifar100", root)
    assert server.requested == [None, "bytes=2000-"]
    get.verify("cifar100", root)


def test_a_connection_cut_for_good_keeps_what_came(root: Path, server: Server, archive: bytes) -> None:
    server.cut_after = [2000, 0]
    with pytest.raises(DataError, match="broke off after 2000 of"):
        get.get("cifar100", root)
    assert (root / "cifar.tar.gz.part").read_bytes() == archive[:2000]
    assert visible(root) == ["cifar.tar.gz.part"]
    get.get("cifar100", root)
    assert server.requested[-1] == "bytes=2000-"


def test_a_damaged_partial_download_is_removed_and_starts_anew(root: Path) -> None:
    half_downloaded(root, b"x" * 1000)
    said: list[str] = []
    get.get("cifar100", root, say=said.append)
    assert "was damaged: it was removed" in said[0]
    get.verify("cifar100", root)


def test_a_wrong_checksum_is_said_and_nothing_stays(root: Path, server: Server, archive: bytes) -> None:
    server.content = archive[:-1] + b"x"
    with pytest.raises(DataError, match=r"came with the md5 \w+ where \w+ is right: it was removed"):
        get.get("cifar100", root)
    assert visible(root) == []


def test_an_unreachable_server_says_what_to_do_by_hand(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    official(monkeypatch, "http://127.0.0.1:9/cifar.tar.gz", b"")
    with pytest.raises(DataError, match=r"127\.0\.0\.1:9 is out of reach: .*--from FILE") as caught:
        get.get("cifar100", root)
    assert "\n" not in str(caught.value)


def test_a_missing_page_is_said(root: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer_404(*args: object, **kwargs: object) -> None:
        from email.message import Message
        from urllib.error import HTTPError

        raise HTTPError(server.url, 404, "Not Found", Message(), BytesIO())

    monkeypatch.setattr("urllib.request.urlopen", answer_404)
    with pytest.raises(DataError, match="answers 404 Not Found"):
        get.get("cifar100", root)


def test_a_silent_server_is_given_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        official(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}/cifar.tar.gz", b"")
        with pytest.raises(DataError, match="timed out"):
            get.get("cifar100", root)
