"""The page at /: watch the learner, teach it, undo. It holds nothing of the learner, so it needs no token."""

from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import APIRouter, Response

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
SCRIPTS = "page", "service", "elements", "watch", "chart", "teach", "undo"
NAMES = "index.html", "page.css", "icon.svg", *(f"{name}.js" for name in SCRIPTS)
FILES = {"/" if name == "index.html" else f"/{name}": name for name in NAMES}
POLICY = "; ".join(
    [
        "default-src 'self'",
        "img-src 'self' blob: data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


def routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for path, name in FILES.items():
        router.add_api_route(path, _file(name), methods=["GET"], response_class=Response)
    return router


def _file(name: str) -> Callable[[], Awaitable[Response]]:
    content = files(__package__).joinpath(name).read_bytes()
    kind = KINDS[name.rpartition(".")[2]]

    async def file() -> Response:
        return Response(content, headers={"Content-Type": f"{kind}; charset=utf-8", "Content-Security-Policy": POLICY})

    return file
