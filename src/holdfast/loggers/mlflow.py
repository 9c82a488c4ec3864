"""MLflow: where its own environment says, else in OUT. A run that was interrupted is gone on with."""

import os
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.loggers.base import AA, Logger, Row, Tool, name_of, settings
from holdfast.runs.spec import RunSpec, code_hash

MOST_AT_A_TIME = 1000  # metrics in one call
ID, CODE, WHY = "holdfast.id", "holdfast.code", "holdfast.why"


class MLflow(Tool):
    def __init__(self, out: Path) -> None:
        import mlflow

        self._client = mlflow.MlflowClient(None if mlflow.is_tracking_uri_set() else _local(out.resolve()))
        self._experiment = _experiment(self._client, os.environ.get("MLFLOW_EXPERIMENT_NAME", "holdfast"))
        killed = self._client.search_runs([self._experiment], "attributes.status = 'KILLED'")
        self._interrupted = {(run.data.tags.get(ID), run.data.tags.get(CODE)): run.info.run_id for run in killed}

    def start(self, spec: RunSpec, run: str) -> Logger:
        from mlflow.entities import Param

        code = code_hash(spec.method)
        known = self._interrupted.pop((run, code), None)
        if known is not None:
            self._client.update_run(known, status="RUNNING")
            return _Run(self._client, known)
        tags = {ID: run, CODE: code}
        new = self._client.create_run(self._experiment, tags=tags, run_name=name_of(spec)).info.run_id
        self._client.log_batch(new, params=[Param(name, str(value)) for name, value in settings(spec).items()])
        return _Run(self._client, new)


class _Run(Logger):
    def __init__(self, client: Any, run: str) -> None:
        super().__init__()
        self._client, self._run = client, run
        self.shown = {point.step for point in client.get_metric_history(run, AA)}

    def send(self, rows: Mapping[int, Row]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, step) for step, row in rows.items() for name, value in row.items()]
        for start in range(0, len(metrics), MOST_AT_A_TIME):
            self._client.log_batch(self._run, metrics=metrics[start : start + MOST_AT_A_TIME])

    def end(self, step: int, figures: Row) -> None:
        self.send({step: figures})
        self._client.set_terminated(self._run, "FINISHED")

    def fail(self, why: str) -> None:
        self._client.set_tag(self._run, WHY, why)
        self._client.set_terminated(self._run, "FAILED")

    def stop(self) -> None:
        self._client.set_terminated(self._run, "KILLED")


def _local(out: Path) -> str:
    """MLflow's own default, a database, if it can write one; mlflow-skinny alone cannot."""
    if find_spec("alembic"):
        return f"sqlite:///{(out / 'mlflow.db').as_posix()}"
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    return (out / "mlruns").as_uri()


def _experiment(client: Any, name: str) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name))
        except MlflowException:  # another process was faster, or there is more wrong
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return str(found.experiment_id)
