"""A file over HTTP that resumes where it broke off and is not there until its checksum is right."""

import hashlib
import os
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.datasets.progress import progress
from holdfast.errors import DataError

TIMEOUT_SECONDS = 20
ATTEMPTS = 3
CHUNK_BYTES = 1 << 18


class OutOfReach(DataError):
    """The server cannot be reached or the connection broke; what came stays, to resume from."""


def download(url: str, target: Path, md5: str, say: Callable[[str], None]) -> None:
    if target.is_file() and md5_of(target) == md5:
        return
    part = target.with_name(f"{target.name}.part")
    resumes = bytes_in(part) > 0
    receive_all(url, part)
    if (found := md5_of(part)) == md5:
        os.replace(part, target)
        return
    part.unlink()
    if not resumes:
        raise DataError(f"{url} came with the md5 {found} where {md5} is right: it was removed, try again")
    say(f"the partial download of {url} was damaged: it was removed and starts anew")
    download(url, target, md5, say)


def receive_all(url: str, part: Path) -> None:
    for attempt in range(ATTEMPTS):
        before = bytes_in(part)
        try:
            receive(url, part)
            return
        except OutOfReach:
            if bytes_in(part) <= before or attempt == ATTEMPTS - 1:
                raise


def receive(url: str, part: Path) -> None:
    """Append to the part what it lacks, or all anew if the server cannot send from the middle."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    server = urlsplit(url).netloc
    have = bytes_in(part)
    headers = {"User-Agent": "holdfast"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=TIMEOUT_SECONDS)
    except HTTPError as error:
        error.close()
        if error.code == 416 and have:  # nothing is lacking; whether it is right the checksum tells
            return
        raise OutOfReach(f"{server} answers {error.code} {error.reason} to {url}") from error
    except (OSError, HTTPException) as error:
        raise OutOfReach(f"{server} is out of reach: {getattr(error, 'reason', error)}") from error
    with response:
        if response.status != 206:
            have = 0
        lacking = response.headers["Content-Length"]
        total = have + int(lacking) if lacking else None
        with part.open("ab" if have else "wb") as file, progress(part.stem, total, have, of_bytes=True) as advance:
            for chunk in chunks(response, server):
                file.write(chunk)
                advance(len(chunk))
    if total is not None and bytes_in(part) < total:
        raise OutOfReach(f"the connection to {server} broke off after {bytes_in(part)} of {total} bytes")


def chunks(response: HTTPResponse, server: str) -> Iterator[bytes]:
    try:
        while chunk := response.read(CHUNK_BYTES):
            yield chunk
    except (OSError, HTTPException) as error:
        raise OutOfReach(f"the connection to {server} broke off: {error}") from error


def md5_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def bytes_in(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
