"""The pictures of Label Studio's tasks. They come from the one server that was named at the start, and no other."""

import base64
import binascii
import time
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx

from holdfast.errors import InputError
from holdfast.serve.limits import Limits
from holdfast.serve.refusals import Refused

PASSES = 240.0  # seconds that a pass of a personal token is used; it is good for 300


class Pictures:
    """`server`: http(s)://host:port. `token`: a personal access token, or a legacy one."""

    def __init__(self, limits: Limits, server: str | None = None, token: str | None = None) -> None:
        if server is not None and (urlsplit(server).scheme not in ("http", "https") or not urlsplit(server).netloc):
            raise InputError(f"--label-studio must be an address as http://localhost:8081, not {server}")
        if server is None and token is not None:
            raise InputError("--label-studio-token needs --label-studio, the server that it is for")
        self._limits, self._token = limits, token
        self._server = None if server is None else server.rstrip("/") + "/"
        self._pass, self._until = "", 0.0

    @staticmethod
    def read_token(file: Path) -> str:
        try:
            token = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--label-studio-token {file} cannot be read: {error}") from None
        if not token.isascii() or len(token.split()) != 1:
            raise InputError(f"--label-studio-token {file} must hold one token")
        return token

    def get(self, address: str) -> bytes:
        if address.startswith("data:"):
            return self._decoded(address)
        if self._server is None:
            raise Refused(422, "pictures by address need --label-studio, the server that they may come from")
        whole = urljoin(self._server, address)
        if urlsplit(whole)[:2] != urlsplit(self._server)[:2]:
            raise Refused(422, "this picture is not on the server that --label-studio names")
        try:
            return self._fetched(whole)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError):
            raise Refused(422, "Label Studio does not give this picture") from None

    def _decoded(self, address: str) -> bytes:
        try:
            return base64.b64decode(address.partition("base64,")[2].encode(), validate=True)
        except (binascii.Error, ValueError):
            raise Refused(422, "an image is not base64") from None

    def _fetched(self, address: str) -> bytes:
        end, content = time.monotonic() + self._limits.seconds, bytearray()
        with (
            httpx.Client(timeout=self._limits.seconds, trust_env=False) as client,
            client.stream("GET", address, headers=self._authorization(client)) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise Refused(422, f"Label Studio does not give this picture: it answers {response.status_code}")
            for part in response.iter_bytes():
                content += part
                if len(content) > self._limits.body or time.monotonic() > end:
                    raise Refused(413, f"a picture may have {self._limits.body} bytes, and must come in time")
        return bytes(content)

    def _authorization(self, client: httpx.Client) -> dict[str, str]:
        if self._token is None or self._server is None:
            return {}
        if self._token.count(".") != 2:
            return {"Authorization": f"Token {self._token}"}
        if time.monotonic() > self._until:
            given = client.post(urljoin(self._server, "api/token/refresh"), json={"refresh": self._token})
            self._pass, self._until = given.raise_for_status().json()["access"], time.monotonic() + PASSES
        return {"Authorization": f"Bearer {self._pass}"}
