"""Who may do what: an answer token asks, a teach token also teaches, an administer token also erases and undoes."""

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import Request

from holdfast.errors import InputError
from holdfast.serve.refusals import Refused

ROLES = ("answer", "teach", "administer")
SHORTEST = 16


class Tokens:
    """None of them: everybody may do everything, which is for loopback."""

    def __init__(self, tokens: dict[str, str] | None = None) -> None:
        self._tokens = tokens or {}

    def __bool__(self) -> bool:
        return bool(self._tokens)

    @classmethod
    def read(cls, file: Path) -> "Tokens":
        """One a line: a role and a token."""
        try:
            lines = [line.split() for line in file.read_text().splitlines() if line.strip() and line[0] != "#"]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--token-file {file} cannot be read: {error}") from None
        for number, line in enumerate(lines, start=1):
            if len(line) != 2 or line[0] not in ROLES or len(line[1]) < SHORTEST or not line[1].isascii():
                wanted = f"a role ({', '.join(ROLES)}) and a token of {SHORTEST} or more ASCII characters"
                raise InputError(f"--token-file {file}: line {number} must be {wanted}")
        if not lines:
            raise InputError(f"--token-file {file} has no token: a line is a role and a token")
        return cls({token: role for role, token in lines})

    def role(self, authorization: str | None) -> str | None:
        """Of a bearer, or of whoever has a token as the password; None if there is no such token."""
        if not self._tokens:
            return ROLES[-1]
        given, found = _token(authorization or "").encode(), None
        for token, role in self._tokens.items():
            if hmac.compare_digest(token.encode(), given):
                found = role
        return found


def needs(role: str) -> Callable[[Request], Awaitable[None]]:
    """A dependency of a route."""

    async def check(request: Request) -> None:
        has = request.state.role
        if ROLES.index(has) < ROLES.index(role):
            raise Refused(403, f"this needs a token with the role {role}; yours has {has}")

    return check


def _token(authorization: str) -> str:
    kind, _, rest = authorization.partition(" ")
    if kind.lower() == "bearer":
        return rest.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""
