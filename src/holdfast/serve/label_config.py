"""Label Studio's labelling interface, as far as it matters here: one choice about one picture."""

from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from holdfast.serve.refusals import Refused

WANTED = (
    'the labelling interface must have <Choices> about one object of the task, as in <Image name="image" '
    'value="$image"/><Choices name="choice" toName="image"><Choice value="heron"/></Choices>'
)
LONGEST = 2**18  # characters


@dataclass(frozen=True, slots=True)
class LabelConfig:
    """`choices`: none where the task brings its own."""

    name: str
    about: str
    field: str
    choices: frozenset[str]

    @classmethod
    def read(cls, text: object) -> "LabelConfig":
        if not isinstance(text, str) or len(text) > LONGEST or "<!" in text.replace("<!--", ""):  # no entities
            raise Refused(422, WANTED)
        try:
            tags = list(ElementTree.fromstring(text).iter())
        except (ElementTree.ParseError, RecursionError, ValueError):
            raise Refused(422, WANTED) from None
        values = {tag.get("name"): tag.get("value", "") for tag in tags if tag.get("name")}
        for tag in tags:
            field = values.get(tag.get("toName"), "")
            if tag.tag == "Choices" and tag.get("name") and field.startswith("$"):
                choices = (each.get("alias") or each.get("value") for each in tag.iter("Choice"))
                return cls(tag.get("name", ""), tag.get("toName", ""), field[1:], frozenset(filter(None, choices)))
        raise Refused(422, WANTED)

    def has(self, choice: str) -> bool:
        return not self.choices or choice in self.choices

    def value(self, data: object) -> Any:
        """What a task's data say of the object."""
        return data.get(self.field) if isinstance(data, dict) else None

    def label(self, result: object) -> str | None:
        """The one choice of an annotation; None if there is none, or several."""
        for each in result if isinstance(result, list) else []:
            if isinstance(each, dict) and each.get("from_name") == self.name and isinstance(each.get("value"), dict):
                chosen = each["value"].get("choices")
                if isinstance(chosen, list) and len(chosen) == 1 and isinstance(chosen[0], str):
                    return chosen[0]
        return None

    def result(self, label: str, score: float) -> dict[str, Any]:
        """A prediction, as an annotation has it."""
        named = {"from_name": self.name, "to_name": self.about, "type": "choices"}
        return {**named, "value": {"choices": [label]}, "score": score}
