"""Figures for Prometheus, with MLServer's names where it has them."""

from collections.abc import Callable

from fastapi import APIRouter, Depends, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from holdfast.serve.refusals import documented
from holdfast.serve.roles import needs
from holdfast.serve.service import Service

REQUEST = ("method", "path", "status_code")
MODEL = ("model",)


class Metrics:
    def __init__(self, service: Service) -> None:
        registry = self.registry = CollectorRegistry()
        self._service = service

        def gauge(name: str, what: str, value: Callable[[], float]) -> None:
            Gauge(name, what, registry=registry).set_function(value)

        self.requests = Counter("rest_server_requests", "Requests", REQUEST, registry=registry)
        self.request_seconds = Histogram(
            "rest_server_request_duration_seconds", "Duration of requests", REQUEST, registry=registry
        )
        self.in_progress = Gauge("rest_server_requests_in_progress", "Requests under way", registry=registry)
        self.answered = Counter("model_infer_request_success", "Requests that were answered", MODEL, registry=registry)
        self.failed = Counter("model_infer_request_failure", "Requests that were refused", MODEL, registry=registry)
        self.answering = Histogram("model_infer_request_duration", "Seconds until an answer", MODEL, registry=registry)
        self.learned = Counter("holdfast_learned_samples", "Samples learned since the start", registry=registry)
        self.learning = Histogram(
            "holdfast_learn_duration_seconds", "Until a batch is learned and safe, with waiting", registry=registry
        )
        gauge("parallel_request_queue", "Changes that wait for the one that is made", lambda: service.waiting)
        gauge("holdfast_step", "Batches learned", lambda: service.learner.step)
        gauge("holdfast_classes", "Classes known", lambda: len(service.learner.classes))
        gauge("holdfast_memory_samples", "Samples held", lambda: len(service.learner.memory))
        gauge("holdfast_memory_bytes", "Bytes held", lambda: service.learner.memory.nbytes)
        gauge("holdfast_pending_questions", "Questions whose labels are still to come", self._pending)
        gauge("holdfast_accuracy", "Of answers before learning, over the last samples", self._accuracy)
        for counter in (self.answered, self.failed, self.answering):
            counter.labels(service.name)  # there from the beginning, as 0

    def _pending(self) -> float:
        return len(self._service.learner.pending)

    def _accuracy(self) -> float:
        progress = self._service.learner.progress
        found = None if progress is None else progress.recent_accuracy
        return float("nan") if found is None else found


def routes(metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["operations"], dependencies=[Depends(needs("answer"))])

    @router.get("/metrics", response_class=Response, responses=documented(content="text/plain"))
    def prometheus() -> Response:
        """Figures for Prometheus."""
        return Response(generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router
