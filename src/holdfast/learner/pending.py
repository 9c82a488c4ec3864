"""Samples that were asked about and whose labels are still to come."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from torch import Tensor

from holdfast.arguments import COUNTED, Range, whole
from holdfast.errors import InputError, TicketError
from holdfast.memory.class_index import Journal
from holdfast.samples import Equal, equal_to_any, is_number

if TYPE_CHECKING:
    from holdfast.learner.answers import Answers


@dataclass(frozen=True, slots=True)
class Ticket:
    """Stands for the samples of one question until their labels are told. Its number will do as well."""

    number: int
    answers: list[Hashable]  # the label predicted for each sample; None while nothing has been learned
    details: "Answers | None" = None  # their probabilities, and the step that they are of


class Pending:
    """The open ones. When there are too many, the oldest expire."""

    def __init__(self, room: int) -> None:
        self.room = whole("pending", room, Range(least=1))
        self.asked = 0
        self._open: OrderedDict[int, Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def __getitem__(self, ticket: Ticket | int) -> Tensor:
        number = self.number(ticket)
        if number not in self._open:
            raise TicketError(f"ticket {number} has been told or has expired; there is room for {self.room} open ones")
        return self._open[number]

    def items(self) -> list[tuple[int, Tensor]]:
        """Numbers and samples, the oldest first."""
        return list(self._open.items())

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

    def add(self, samples: Tensor, journal: Journal) -> int:
        number = self.asked
        oldest = next(iter(self._open.items())) if len(self._open) >= self.room else None
        journal.on_undo(partial(self._take_back, number, oldest))
        if oldest is not None:
            del self._open[oldest[0]]
        self._open[number] = samples
        self.asked = number + 1
        return number

    def remove(self, ticket: int, journal: Journal) -> None:
        if ticket in self._open:
            journal.on_undo(partial(self._put_back, ticket, self._open[ticket]))
            del self._open[ticket]

    def remove_samples(self, samples: Tensor, journal: Journal, equal: Equal = equal_to_any) -> int:
        """Pending about any of these samples. Returns how many there were."""
        before = self._open
        journal.on_undo(partial(setattr, self, "_open", before))
        left = ((number, x) for number, x in before.items() if not len(equal(x.numpy(), samples)))
        self._open = OrderedDict(left)
        return len(before) - len(self._open)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        tensors = {f"questions/{number}": samples for number, samples in self._open.items()}
        return tensors, {"room": self.room, "asked": self.asked}

    def unpack(self, tensors: Mapping[str, Tensor], values: Mapping[str, int]) -> None:
        self.asked = values["asked"]
        self._open = OrderedDict((number, tensors[str(number)]) for number in sorted(map(int, tensors)))

    def flaw(self) -> str | None:
        """What is wrong with them, as they were unpacked."""
        if whole("asked", self.asked, COUNTED) <= max(self._open, default=-1) or len(self._open) > self.room:
            return "their numbers"
        batches = all(samples.ndim >= 2 and len(samples) and is_number(samples) for samples in self._open.values())
        return None if batches else "their samples"

    def _take_back(self, number: int, oldest: tuple[int, Tensor] | None) -> None:
        """As if this one had not been asked and the oldest had not expired."""
        self.asked = number
        self._open.pop(number, None)
        if oldest is not None:
            self._open[oldest[0]] = oldest[1]
            self._open.move_to_end(oldest[0], last=False)

    def _put_back(self, ticket: int, samples: Tensor) -> None:
        self._open = OrderedDict(sorted([*self._open.items(), (ticket, samples)], key=itemgetter(0)))
