"""Records say what their methods did, also by options that came later.

A new record names such an option, whatever its value. One that does not was made before there was the option.
"""

from collections.abc import Mapping
from typing import Any

BEFORE = {"er-aml": {"positives": "released"}}  # what a method did before it had an option; its class says it, too


def completed(record: dict[str, Any]) -> dict[str, Any]:
    """A record with the options that it could not name."""
    added = {key: value for key, value in BEFORE.get(record["method"], {}).items() if key not in record["options"]}
    if not added:
        return record
    options = record["options"] | added
    title = ",".join(f"{option}={value}" for option, value in options.items())
    return {**record, "options": options, "title": f"{record['method']}:{title}"}


def named(method: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a run, with those that came later."""
    if method not in BEFORE:
        return dict(options)
    from holdfast.methods import make

    made = make(method, options)
    return {**options, **{option: str(getattr(made, option)) for option in BEFORE[method]}}
