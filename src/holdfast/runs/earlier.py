"""Records say what their methods did, also by options that came later.

A new record names such an option, whatever its value. One that does not was made before there was the option.
"""

from collections.abc import Mapping
from typing import Any

BEFORE = {  # what a method did before it had an option; its class says it, too
    "er-aml": {"positives": "released"},
    "holdfast": {"counts": "drawn"},
}
FIRST = {"ss-il": {"distil": {"true": "incoming+rehearsal"}}}  # values that had other names: {then: now}


def completed(record: dict[str, Any]) -> dict[str, Any]:
    """A record with the options that it could not name, and all by their present names."""
    method, said = record["method"], record["options"]
    first = FIRST.get(method, {})
    options = {name: first.get(name, {}).get(value, value) for name, value in said.items()}
    options |= {name: value for name, value in BEFORE.get(method, {}).items() if name not in said}
    if options == said:
        return record
    names = ",".join(f"{option}={value}" for option, value in options.items())
    mark = "†" if record["title"].endswith("†") else ""
    return {**record, "options": options, "title": f"{method}:{names}{mark}"}


def named(method: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a run, with those that came later."""
    if method not in BEFORE:
        return dict(options)
    from holdfast.methods import make

    made = make(method, options)
    return {**options, **{option: str(getattr(made, option)) for option in BEFORE[method]}}
