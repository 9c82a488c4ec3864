"""The requests that are read by hand, because they come in several forms, as the schema has them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr
from pydantic.json_schema import models_json_schema

Label = StrictStr | StrictInt
REFERENCES = "#/components/schemas/{model}"


class Tensor(BaseModel):
    """Of the Open Inference Protocol v2. With `binary_data_size` in its parameters, its data follow the JSON."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: dict[str, Any] | None = None


class WantedOutput(BaseModel):
    name: str
    parameters: dict[str, Any] | None = None


class InferRequest(BaseModel):
    inputs: list[Tensor]
    id: str | None = None
    parameters: dict[str, Any] | None = None
    outputs: list[WantedOutput] | None = None


class Samples(BaseModel):
    """One of images (base64 of PNG, JPEG or WebP), arrays (numbers) and inputs (tensors of the protocol)."""

    images: list[str] | None = None
    arrays: list[Any] | None = None
    inputs: list[Tensor] | None = None


class LabelledSamples(Samples):
    """A label for each sample, here or as a tensor named label."""

    model_config = ConfigDict(title="LabelledSamples")
    labels: list[Label] | None = None


MODELS: tuple[type[BaseModel], ...] = (InferRequest, Samples, LabelledSamples)


def infer_body() -> dict[str, Any]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    return _body({"application/json": _named("InferRequest"), "application/octet-stream": binary})


def samples_body(*, labelled: bool = False) -> dict[str, Any]:
    """JSON, a form with files, or one file as it is."""
    name = "LabelledSamples" if labelled else "Samples"
    properties: dict[str, Any] = {"files": {"type": "array", "items": {"type": "string", "format": "binary"}}}
    if labelled:
        properties["label"] = {"type": "array", "items": {"type": "string"}}
        properties["labels"] = {"type": "string", "description": "or all of them as a JSON list"}
    form = {"schema": {"type": "object", "properties": properties, "required": ["files"]}}
    file = {"schema": {"type": "string", "format": "binary"}}
    kinds = {"application/json": _named(name), "multipart/form-data": form, "application/octet-stream": file}
    pictures = {f"image/{kind}": file for kind in ("png", "jpeg", "webp")}
    body = _body({**kinds, **pictures})
    if labelled:
        description = "of the sample, where the body is one file as it is"
        schema = {"type": "array", "items": {"type": "string"}}
        body["parameters"] = [{"in": "query", "name": "label", "schema": schema, "description": description}]
    return body


def defined() -> dict[str, Any]:
    """What these bodies refer to."""
    _, found = models_json_schema([(model, "validation") for model in MODELS], ref_template=REFERENCES)
    definitions: dict[str, Any] = found["$defs"]
    return definitions


def _named(model: str) -> dict[str, Any]:
    return {"schema": {"$ref": REFERENCES.format(model=model)}}


def _body(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}
