"""`holdfast serve`: a learner that any program can reach and teach."""

from __future__ import annotations

import argparse
import asyncio
import gc
import ipaddress
import logging
import os
import socket
import ssl
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.allocator import keep_freed_memory
from holdfast.commands.options import folder, number_or_text, shape
from holdfast.errors import InputError

if TYPE_CHECKING:
    from holdfast.durable import DurableLearner
    from holdfast.serve.limits import Limits
    from holdfast.serve.pictures import Pictures
    from holdfast.serve.roles import Tokens
    from holdfast.serve.service import Service

DRAIN = 2  # seconds until answers that are still under way are cut off
HANDSHAKE = 5.0  # seconds that one of TLS may take
MOST_CONNECTIONS = 512
ACCEPTED_AT_ONCE = 64
MIB = 2**20
NEW = "memory", "lr", "seed", "average", "updates", "standardise", "clip_samples"  # arguments of holdfast.open


def describe(serve: argparse.ArgumentParser) -> None:
    serve.set_defaults(command=main)
    serve.add_argument(
        "folder",
        nargs="?",
        type=folder,
        metavar="FOLDER",
        help="as given to holdfast.open; none: a demonstration",
    )
    new = serve.add_argument_group("for a new learner; an existing one has to fit").add_argument
    new(
        "--net",
        metavar="NAME",
        help="slim-resnet18, small-cnn or mlp, or a pretrained one as for holdfast run: timm:NAME, torchvision:NAME, "
        "file.py:factory (default: what suits the samples)",
    )
    new("--shape", type=shape, metavar="3x32x32", help="of its samples: pictures (default 3x32x32) or vectors (8)")
    new("--method", metavar="NAME[:option=value,...]", help="its method (default: that of holdfast.open)")
    new("--memory", type=number_or_text, metavar="M", help="a number of samples, or bytes, 50MB (default 1000)")
    new("--lr", type=float, help="its learning rate (default 0.1; holdfast: 0.05)")
    new("--seed", type=int, help="decides all its randomness (default 0)")
    average = "answer by a moving average of the net, such as 0.99 (default 0; holdfast: 0.99)"
    new("--average", type=float, metavar="DECAY", help=average)
    new("--updates", type=int, metavar="N", help="gradient steps on each batch (default 1)")
    standard = "scale columns (of pictures: channels) to mean 0 and variance 1"
    limit = "values beyond X, on either side, count as X (default: absurd ones are refused)"
    new("--clip-samples", type=float, metavar="X", help=limit)
    new("--standardise", action="store_true", default=None, help=standard)
    keeping = serve.add_argument_group("keeping it").add_argument
    window = "predict labelled samples before they are learned, and count over the last N (1000; 0: do not)"
    keeping("--progress", type=int, default=1000, metavar="N", help=window)
    loss = "how much a power loss may cost (default 0: nothing that was acknowledged)"
    keeping("--sync-every", type=float, default=0.0, metavar="SECONDS", help=loss)
    keeping("--checkpoint-every", type=int, default=1000, metavar="N", help="changes between checkpoints (1000)")
    keeping("--keep", type=int, default=5, metavar="N", help="checkpoints to keep, to go back to (5)")
    reach = serve.add_argument_group("who reaches it").add_argument
    reach("--name", default="holdfast", help="of the model, under /v2/models (default holdfast)")
    reach("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    reach("--port", type=int, default=8080, help="(default 8080; 0: any that is free)")
    reach("--token-file", type=Path, metavar="FILE", help="each line a role (answer, teach, administer) and a token")
    reach("--insecure", action="store_true", help="listen on addresses other than loopback without tokens")
    reach("--tls-cert", type=Path, metavar="FILE", help="a certificate, with its chain, as PEM")
    reach("--tls-key", type=Path, metavar="FILE", help="its key")
    labelling = serve.add_argument_group("Label Studio").add_argument
    labelling("--label-studio", metavar="URL", help="the server that pictures of annotated tasks are fetched from")
    labelling("--label-studio-token", type=Path, metavar="FILE", help="a file with an access token for it")
    bound = serve.add_argument_group("bounds").add_argument
    bound("--max-bytes", type=int, default=16 * MIB, metavar="N", help="of a request (16 MiB)")
    pixels = "of a picture (16 million), and four times that of a request"
    bound("--max-pixels", type=int, default=2**24, metavar="N", help=pixels)
    bound("--max-samples", type=int, default=1024, metavar="N", help="of a batch (1024)")
    bound("--max-classes", type=int, default=1000, metavar="N", help="that are known at a time (1000)")
    bound("--max-queue", type=int, default=64, metavar="N", help="changes that wait; more get a 429 (64)")
    bound("--timeout", type=float, default=30.0, metavar="SECONDS", help="until a request has arrived (30)")


def main(options: argparse.Namespace) -> int:
    try:
        import uvicorn  # noqa: F401

        from holdfast.serve.app import make_app
        from holdfast.serve.demonstration import SHAPE, demonstrate
        from holdfast.serve.service import Service
    except ImportError:
        raise InputError("holdfast serve needs more packages: pip install 'holdfast[serve]'") from None

    tokens, limits = _tokens(options), _limits(options)
    pictures = _pictures(options, limits)
    _check_tls(options)
    keep_freed_memory()
    is_shown = options.folder is None and not (options.net or options.shape)
    options.shape = SHAPE if is_shown else options.shape
    with ExitStack() as stack:
        where = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "learner"
        listening = stack.enter_context(closing(_socket(options.host, options.port)))
        service = Service(where, lambda: _opened(where, options), limits, options.name)
        try:
            gc.freeze()  # what is there by now stays: looking through it takes long, above all when told to stop
            what = "a demonstration, which keeps nothing when it stops" if is_shown else f"the learner in {where}"
            print(f"holdfast: open {_address(options, listening)} in a browser: {what}", flush=True)
            beside = demonstrate if is_shown else None
            app = make_app(service, tokens, any_host=options.insecure, pictures=pictures, beside=beside)
            _serve(app, service, listening, options)
        except KeyboardInterrupt:  # raised again by uvicorn when all is closed
            pass
        finally:
            closed = service.close()
        if not closed:
            _leave()
    return 0


def _serve(app: Any, service: Service, listening: socket.socket, options: argparse.Namespace) -> None:
    import uvicorn

    from holdfast.serve.connections import Connection
    from holdfast.serve.gate import JSONLines

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log addresses that may carry tokens
    sys.setswitchinterval(0.0005)  # an answer waits less for the thread that learns
    most = min(MOST_CONNECTIONS, max(1, _open_files() // 2 - 2 * ACCEPTED_AT_ONCE))  # with some to spare
    config = uvicorn.Config(
        app,
        http=Connection.within(options.timeout, most),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=most + 1,
        backlog=ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=DRAIN,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            if options.tls_cert is not None:  # whoever only connects is not waited for
                loop: Any = asyncio.get_running_loop()
                limited = partial(loop.create_server, ssl_handshake_timeout=min(HANDSHAKE, options.timeout))
                with suppress(AttributeError):  # other event loops have limits of their own
                    loop.create_server = limited
            await super().startup(sockets)

        def handle_exit(self, sig: int, frame: Any) -> None:
            service.closing.set()  # feeds of events end by themselves
            super().handle_exit(sig, frame)

    Server(config).run(sockets=[listening])


def _open_files() -> int:
    """How many the process may have."""
    try:
        import resource
    except ImportError:  # Windows
        return 4 * MOST_CONNECTIONS
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 4 * MOST_CONNECTIONS if most == resource.RLIM_INFINITY else most


def _leave() -> None:
    """A step takes longer than whoever stops us waits: all that was acknowledged is safe."""
    logging.getLogger("holdfast.serve").warning("stopped in the middle of a step, which was not acknowledged")
    sys.stderr.flush()
    os._exit(0)


def _opened(where: Path, options: argparse.Namespace) -> DurableLearner:
    import holdfast
    from holdfast import methods
    from holdfast.durable.inspection import inspect
    from holdfast.durable.snapshot import LEARNER
    from holdfast.errors import UnknownName
    from holdfast.nets import NETS, default_net
    from holdfast.nets.named import is_pretrained

    how: dict[str, Any] = {"checkpoint_every": options.checkpoint_every, "keep": options.keep}
    how |= {"sync_every": options.sync_every, "progress": options.progress}
    how |= {name: getattr(options, name) for name in NEW}
    there = inspect(where).net if (where / LEARNER).exists() else None
    if options.net and is_pretrained(options.net):
        how["encoder"] = holdfast.pretrained(options.net)
    elif there is not None:  # it is made as it was; what is given only has to fit
        _check_fit("--net", options.net, there["name"], where)
        _check_fit("--shape", _as_text(options.shape), _as_text(there["shape"]), where)
    elif not (where / LEARNER).exists() or options.net or options.shape:
        shape = options.shape or (3, 32, 32)
        if len(shape) == 3 and shape[0] not in (1, 3) and shape[2] in (1, 3):
            first = _as_text((shape[2], *shape[:2]))
            raise InputError(f"--shape {_as_text(shape)}: channels come first, so pictures are {first}")
        if (net := options.net or default_net(shape)) not in NETS:
            raise UnknownName("net", net, NETS)
        how["encoder"] = NETS[net](shape, seed=options.seed or 0)
    if options.method:
        how["method"] = method = methods.make(*methods.parse(options.method))
        if method.needs_task_ids or method.iid_batches:
            needs = "needs to know where tasks end" if method.needs_task_ids else "wants the whole stream shuffled"
            raise InputError(f"--method {options.method} {needs}; choose one that does not")
    return holdfast.open(where, **how)


def _check_fit(name: str, given: str | None, there: str | None, where: Path) -> None:
    if given not in (None, there):
        raise InputError(f"{name} {given} is not that of the learner in {where}, which has {there}")


def _as_text(shape: Sequence[int] | None) -> str | None:
    return None if shape is None else "x".join(map(str, shape))


def _tokens(options: argparse.Namespace) -> Tokens:
    from holdfast.serve.roles import Tokens

    tokens = Tokens() if options.token_file is None else Tokens.read(options.token_file)
    if not tokens and not options.insecure and not _is_loopback(options.host):
        raise InputError(f"--host {options.host} can be reached by others: give --token-file FILE, or --insecure")
    return tokens


def _limits(options: argparse.Namespace) -> Limits:
    from holdfast.arguments import POSITIVE, Range, real, whole
    from holdfast.serve.limits import Limits

    one = Range(least=1)
    return Limits(
        body=whole("--max-bytes", options.max_bytes, one),
        seconds=real("--timeout", options.timeout, POSITIVE),
        pixels=whole("--max-pixels", options.max_pixels, one),
        samples=whole("--max-samples", options.max_samples, one),
        classes=whole("--max-classes", options.max_classes, one),
        queue=whole("--max-queue", options.max_queue, one),
    )


def _pictures(options: argparse.Namespace, limits: Limits) -> Pictures:
    from holdfast.serve.pictures import Pictures

    token = None if options.label_studio_token is None else Pictures.read_token(options.label_studio_token)
    return Pictures(limits, options.label_studio, token)


def _check_tls(options: argparse.Namespace) -> None:
    if (options.tls_cert is None) != (options.tls_key is None):
        raise InputError("--tls-cert and --tls-key go together")
    if options.tls_cert is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(options.tls_cert, options.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"--tls-cert and --tls-key cannot be used: {error}") from None


def _socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, proto=socket.IPPROTO_TCP)  # said, or asyncio lets answers wait for more to send
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)  # from now on connections wait
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(f"cannot listen on {host} port {port}: {error}") from None
    return listening


def _address(options: argparse.Namespace, listening: socket.socket) -> str:
    everywhere = options.host in ("0.0.0.0", "::")
    host = "localhost" if everywhere else f"[{options.host}]" if ":" in options.host else options.host
    return f"{'http' if options.tls_cert is None else 'https'}://{host}:{listening.getsockname()[1]}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
