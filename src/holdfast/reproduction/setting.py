"""What the paper's experiments have in common: streams, sizes, hyper-parameters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from holdfast import methods
from holdfast.errors import InputError, UnknownName
from holdfast.reproduction.picks import HyperParameters, Picks, Whose, authors
from holdfast.runs.grid import grid
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Record
from holdfast.streams.named import OPTIONS

TOLD_NO_MEMORY = ("iid", "iid++", "iid-offline", "fine-tuning")


SAME_PICK_AS = {"der++-ace": "der++", "der": "der++", "fine-tuning": "er"}
VALIDATION = "holdout=5"  # of a stream: tested on samples that are withheld from training
MEMORY_OF_MINIATURES = {0: 0, 5: 1, 20: 2, 50: 3, 100: 4}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One run of the paper, but for its seed."""

    dataset: str = "cifar10"
    method: str  # as on the command line, with the options that make the row what it is
    memory: int = 20
    augment: bool = False
    stream: str = ""  # options of the stream
    start: str | None = None
    probe: str = ""

    def __post_init__(self) -> None:
        if self.method in TOLD_NO_MEMORY:
            object.__setattr__(self, "memory", 0)

    @property
    def name(self) -> str:
        """The method without options."""
        return self.method.partition(":")[0]

    def said(self, field: str) -> list[str]:
        """What it says of a field or of an option of its stream, in all ways one would write it."""
        options = dict(option.split("=") for option in filter(None, self.stream.split(",")))
        values = [str(getattr(self, field, "")), options.get(field, "")]
        return [*values, self.name] if field == "method" else values

    def fits(self, wanted: Mapping[str, str]) -> bool:
        return all(value in self.said(field) for field, value in wanted.items())

    def authors_pick(self, whose: Whose = "text") -> HyperParameters:
        name = SAME_PICK_AS.get(self.name, self.name)
        pick = authors(whose, self.dataset, name, memory=self.memory, augment=self.augment)
        known = methods.find(self.name).__dataclass_fields__  # DER has no β
        options = [option for option in pick.options.split(",") if option.partition("=")[0] in known]
        return pick._replace(options=",".join(options))

    def has_pick_of_its_own(self, whose: Whose) -> bool:
        """Other than the text has for it."""
        return whose == "text" or self.authors_pick(whose) != self.authors_pick()

    def own_pick(self, picks: Picks) -> HyperParameters | None:
        same = SAME_PICK_AS.get(self.name, self.name)
        found = [picks.get((self.dataset, name, self.augment)) for name in (self.name, same)]
        return found[0] or found[1]

    def specs(
        self, seeds: int, *, quick: bool = False, picks: Picks = MappingProxyType({}), whose: Whose = "text"
    ) -> list[RunSpec]:
        """With the hyper-parameters of `picks`, or the authors' if these have none for it."""
        pick = self.own_pick(picks) or self.authors_pick(whose)
        given = self.method.partition(":")[2]
        options = ",".join(filter(None, (given, pick.options)))
        method = f"{self.name}:{options}" if options else self.name
        choices = {"lr": pick.lr, "augment": self.augment, "start": self.start, "probe": self.probe}
        chosen = {name: value for name, value in choices.items() if value is not None}
        if quick:
            return grid(**_miniature(self, method), **chosen, seeds=seeds)
        stream = f"{self.dataset}:{self.stream}" if self.stream else self.dataset
        return grid(stream=stream, method=method, memory=self.memory, eval="rotating:100", seeds=seeds, **chosen)


def _miniature(setting: Setting, method: str) -> dict[str, object]:
    """The same experiment on 20 embedded images a class with a small net: seconds instead of hours."""
    tasks = {"cifar10": 5, "cifar100": 10, "mini-imagenet": 10}[setting.dataset]
    extra = f",{setting.stream}" if setting.stream else ""
    if setting.name == "gdumb":
        method += ("," if ":" in method else ":") + "rounds=2"
    if setting.memory not in MEMORY_OF_MINIATURES:
        known = ", ".join(map(str, MEMORY_OF_MINIATURES))
        raise InputError(f"--memory {setting.memory}: there are only miniatures with {known} samples per class")
    memory = MEMORY_OF_MINIATURES[setting.memory]
    stream = f"fashion:first=20,tasks={tasks}{extra}"
    evaluation = "exact" if VALIDATION in setting.stream else "rotating:20"  # of validation samples there are few
    return {"stream": stream, "method": method, "memory": memory, "net": "mlp", "eval": evaluation}


def only(texts: Sequence[str]) -> dict[str, str]:
    """field=value,field=value of settings and of their streams."""
    wanted = {}
    for item in (item for text in texts for item in text.split(",")):
        field, equals, value = item.partition("=")
        if not equals or not value:
            raise InputError(f"--only {item}: write field=value, as method=er-ace,memory=20")
        if field not in (known := (*Setting.__dataclass_fields__, *OPTIONS)):
            raise UnknownName("field", field, known)
        wanted[field] = value.capitalize() if field == "augment" else value
    return wanted


RecordsOf = Callable[[Setting], list[Record]]
