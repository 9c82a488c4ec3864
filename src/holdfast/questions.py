"""Samples that were asked about and whose labels are still to come."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from holdfast.arguments import Range, whole
from holdfast.class_index import Journal
from holdfast.errors import InputError, TicketError
from holdfast.samples import equal_to_any


@dataclass(frozen=True, slots=True)
class Ticket:
    """Stands for the samples of one question until their labels are told. Its number alone will do as well."""

    number: int
    answers: list[Hashable]  # the label predicted for each sample; None while nothing has been learned


class Questions:
    """The open ones. When there are too many, the oldest expire."""

    def __init__(self, room: int) -> None:
        self.room = whole("questions", room, Range(least=1))
        self.asked = 0
        self._open: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __getitem__(self, ticket: Ticket | int) -> Tensor:
        number = self.number(ticket)
        if number not in self._open:
            raise TicketError(f"ticket {number} has been told or has expired; there is room for {self.room} open ones")
        return self._open[number]

    def number(self, ticket: Ticket | int) -> int:
        """Of a question that was asked once."""
        given = ticket.number if isinstance(ticket, Ticket) else ticket
        try:
            number = whole("ticket", given)
        except InputError:
            number = self.asked
        if number >= self.asked:
            raise TicketError(f"there is no ticket {given!r}")
        return number

    def add(self, samples: Tensor) -> int:
        number, newest = self.asked, [*self._open.items(), (self.asked, samples)][-self.room :]
        self._open, self.asked = dict(newest), number + 1
        return number

    def remove(self, ticket: int, journal: Journal) -> None:
        journal.on_undo(partial(setattr, self, "_open", self._open))
        self._open = {number: x for number, x in self._open.items() if number != ticket}

    def remove_samples(self, samples: Tensor, journal: Journal) -> int:
        """Questions about any of these samples. Returns how many there were."""
        before = self._open
        journal.on_undo(partial(setattr, self, "_open", before))
        self._open = {number: x for number, x in before.items() if not len(equal_to_any(x.numpy(), samples))}
        return len(before) - len(self._open)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        tensors = {f"questions/{number}": samples for number, samples in self._open.items()}
        return tensors, {"room": self.room, "asked": self.asked}

    def unpack(self, tensors: Mapping[str, Tensor], values: Mapping[str, int]) -> None:
        self.asked = values["asked"]
        self._open = {number: tensors[str(number)] for number in sorted(map(int, tensors))}
