"""What a caller is told when a request is refused: never a path, a traceback or what others have sent."""

from typing import Any

from pydantic import BaseModel

from holdfast.errors import CheckpointError, HoldfastError, InputError, NonFiniteError, NothingLearned, TicketError


class Refused(Exception):
    """An answer with this status instead of the one that was wanted."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why
        self.headers = {name.replace("_", "-"): text for name, text in headers.items()}


class Refusal(BaseModel):
    """Why a request was refused."""

    error: str


def refusal(error: HoldfastError) -> Refused:
    """Errors of arguments speak of the arguments; the others may speak of files."""
    if isinstance(error, TicketError):
        return Refused(404, str(error))
    if isinstance(error, NothingLearned):
        return Refused(409, str(error))
    if isinstance(error, NonFiniteError):
        return Refused(422, "the batch leads to numbers that are not finite; nothing was learned")
    if isinstance(error, InputError):
        return Refused(422, str(error))
    if isinstance(error, CheckpointError):
        return Refused(409, "the checkpoint is damaged or does not fit; nothing was changed")
    return Refused(503, "the learner cannot be written now; nothing was changed", Retry_After="5")


def documented(*statuses: int, content: str | None = None) -> dict[int | str, dict[str, Any]]:
    """For the schema; `content`: what comes where it is not refused, if that is not JSON."""
    described: dict[int | str, dict[str, Any]] = {
        status: {"model": Refusal, "description": MEANINGS[status]} for status in sorted({*statuses, *USUAL})
    }
    if content is not None:
        schema = {"type": "string"} if content.startswith("text/") else {"type": "string", "format": "binary"}
        described[200] = {"description": "What was asked for.", "content": {content: {"schema": schema}}}
    return described


USUAL = (401, 403, 408, 413, 429, 503)
MEANINGS = {
    400: "It is not what the protocol says.",
    401: "A token is needed.",
    403: "The token's role does not allow it, or it comes from a page of another origin.",
    404: "It is not there.",
    408: "It did not arrive in time.",
    409: "The learner is not in a state for it.",
    413: "It is too large.",
    422: "A value is wrong; nothing was changed.",
    429: "Too much waits already.",
    503: "The learner cannot be written, or the service is stopping.",
}
