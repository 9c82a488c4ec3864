"""Samples that were asked about and whose labels are still to come."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor

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
        if room < 1:
            raise InputError(f"questions: there must be room for at least one, not {room}")
        self.room = room
        self.asked = 0
        self._open: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __getitem__(self, ticket: Ticket | int) -> Tensor:
        number = ticket.number if isinstance(ticket, Ticket) else ticket
        if not isinstance(number, int) or not 0 <= number < self.asked:
            raise TicketError(f"there is no ticket {number!r}")
        if number not in self._open:
            raise TicketError(f"ticket {number} has been told or has expired; there is room for {self.room} open ones")
        return self._open[number]

    def add(self, samples: Tensor) -> int:
        number, newest = self.asked, [*self._open.items(), (self.asked, samples)][-self.room :]
        self._open, self.asked = dict(newest), number + 1
        return number

    def remove(self, ticket: int, journal: Journal) -> None:
        journal.on_undo(partial(setattr, self, "_open", self._open))
        self._open = {number: x for number, x in self._open.items() if number != ticket}

    def remove_samples(self, samples: Tensor, journal: Journal) -> None:
        """Questions about any of these samples."""
        journal.on_undo(partial(setattr, self, "_open", self._open))
        self._open = {number: x for number, x in self._open.items() if not len(equal_to_any(x.numpy(), samples))}

    def pack(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        tensors = {f"questions/{number}": samples for number, samples in self._open.items()}
        return tensors, {"room": self.room, "asked": self.asked}

    def unpack(self, tensors: Mapping[str, Tensor], values: Mapping[str, int]) -> None:
        self.asked = values["asked"]
        self._open = {number: tensors[str(number)] for number in sorted(map(int, tensors))}
