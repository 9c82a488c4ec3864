"""The claims of the text that runs can judge."""

from itertools import chain

from holdfast.reproduction.claims import (
    At,
    Claim,
    Part,
    at_least,
    at_most,
    difference,
    difference_of,
    exactly_nothing,
    exactly_positive,
    lead,
    opposite,
    positive,
    relative,
    relative_lead,
)
from holdfast.reproduction.setting import VALIDATION
from holdfast.reproduction.table import Line, PaperTable
from holdfast.reproduction.tables import T1, T2, T3, T4, T5, T6, T7, T8, T9

BESIDE = PaperTable(
    name="claims",
    title="What claims need beside the tables",
    rows=[
        Line("DER, augmented", {"method": "der", "augment": True}),
        Line("SS-IL †, distilled", {"method": "ss-il:distil=rehearsal"}),
        Line("iCaRL †, not distilled", {"method": "icarl:distil=false"}),
        Line("DER++ with ACE, augmented", {"method": "der++-ace", "augment": True}),
        Line("SS-IL †, present task", {"method": "ss-il", "probe": "current-task"}),
        Line("ER-AML, drift", {"method": "er-aml", "probe": "drift"}),
        Line("ER-AML, all negatives, drift", {"method": "er-aml:negatives=all", "probe": "drift"}),
        *(
            Line(f"{title}, alignment", {"method": name, "probe": "alignment", "stream": VALIDATION})
            for title, name in (("ER", "er"), ("ER-ACE", "er-ace"))
        ),
    ],
    columns=[Line(f"M = {memory}", {"memory": memory}) for memory in (20, 100)],
    measures=[],
)
MEMORIES = ("M = 5", "M = 20", "M = 100")
KINDS = {"": "", "augmented": ", augmented"}  # of rows of T1
BASELINES = ("ER", "iCaRL †", "MIR †", "SS-IL †")
CIFAR100, MINI = "Split CIFAR-100", "Split MiniImageNet"


def _named(memory: str, kind: str) -> str:
    return f"{memory}, {kind}" if kind else memory


def _better_than_er(table: PaperTable, column: str, kind: str = "") -> list[At]:
    return [At(table, f"{method}{KINDS[kind]}", column) for method in ("ER-ACE", "ER-AML", "ER")]


def _baselines(column: str, kind: str) -> list[At]:
    derpp = [At(T1, "DER++, augmented", column)] if kind else []
    return [*(At(T1, f"{name}{KINDS[kind]}", column) for name in BASELINES), *derpp]


def _pair(table: PaperTable, one: str, another: str, column: str, measure: str = "acc") -> list[list[At]]:
    return [[At(table, row, column, measure) for row in (one, another)]]


IN_T1 = [(memory, kind) for kind in KINDS for memory in MEMORIES]
CLAIMS = [
    Claim(
        "The better of ER-ACE and ER-AML ends 36 % above ER (relative, mean over the settings of T1 and T2)",
        "1 Introduction",
        "%",
        at_least(36),
        [
            Part(
                "all eight settings",
                relative_lead,
                [
                    *(_better_than_er(T1, *at) for at in IN_T1),
                    *(_better_than_er(T2, data) for data in (CIFAR100, MINI)),
                ],
            )
        ],
    ),
    Claim(
        "ER-ACE ends 35 % above ER on long sequences of tasks (relative)",
        "5.4 Longer Task Sequence",
        "%",
        at_least(35),
        [
            Part(where, relative, _pair(T2, "ER-ACE", "ER", data, measure))
            for where, data, measure in (
                ("Split CIFAR-100, Acc", CIFAR100, "acc"),
                ("Split CIFAR-100, AAA", CIFAR100, "aaa"),
                ("Split CIFAR-100, AAA at task ends", CIFAR100, "aaa_at_task_ends"),
                ("Split MiniImageNet, Acc", MINI, "acc"),
            )
        ],
    ),
    Claim(
        "ER-ACE computes no more than ER (relative difference of multiply-adds)",
        "5.4 Longer Task Sequence",
        "%",
        exactly_nothing,
        [
            Part("Split CIFAR-10, M = 20", relative, _pair(T1, "ER-ACE", "ER", "M = 20", "tflops")),
            Part(CIFAR100, relative, _pair(T2, "ER-ACE", "ER", CIFAR100, "tflops")),
        ],
    ),
    Claim(
        "DER does not beat ER in a single pass (final accuracy less that of ER, both augmented; at most 2 points)",
        "A.1 Hyperparameters",
        "points",
        at_most(2),
        [Part("M = 20", difference, [[At(BESIDE, "DER, augmented", "M = 20"), At(T1, "ER, augmented", "M = 20")]])],
    ),
    Claim(
        "Distillation hurts in the online setting (final accuracy without less that with it)",
        "A.1 Hyperparameters",
        "points",
        positive,
        [
            Part(
                "SS-IL, M = 20", difference, [[At(T1, "SS-IL †", "M = 20"), At(BESIDE, "SS-IL †, distilled", "M = 20")]]
            )
        ],
    ),
    Claim(
        "ER-ACE and ER-AML end above every other method on Split CIFAR-10 (lead over the best of these)",
        "5.4 CIFAR-10",
        "points",
        positive,
        [
            Part(f"{method}, {_named(*at)}", lead, [[At(T1, f"{method}{KINDS[at[1]]}", at[0]), *_baselines(*at)]])
            for at in IN_T1
            for method in ("ER-ACE", "ER-AML")
        ],
    ),
    Claim(
        "The gain over ER is largest with little memory (relative gain of ER-ACE at M = 5 less that at M = 100)",
        "1 Introduction",
        "points",
        positive,
        [
            Part(
                kind or "not augmented",
                difference_of(relative),
                [
                    [
                        At(T1, f"{method}{suffix}", memory)
                        for memory in ("M = 5", "M = 100")
                        for method in ("ER-ACE", "ER")
                    ]
                ],
            )
            for kind, suffix in KINDS.items()
        ],
    ),
    Claim(
        "ER falls on the first task when the second begins (accuracy in the 100 updates before less that after)",
        "1 Introduction, Figure 1",
        "points",
        positive,
        [Part("M = 20", opposite, [[At(T1, "ER", "M = 20", "switch")]])],
    ),
    Claim(
        "ER-ACE does not fall when the second task begins (the same difference; at most 5 points)",
        "1 Introduction, Figure 1",
        "points",
        at_most(5),
        [Part("M = 20", opposite, [[At(T1, "ER-ACE", "M = 20", "switch")]])],
    ),
    Claim(
        "With augmentation, GDumb has no advantage over ER (final accuracy less that of ER; at most 2 points)",
        "5.4 Evaluation with augmentation",
        "points",
        at_most(2),
        [Part(memory, difference, _pair(T1, "GDumb, augmented", "ER, augmented", memory)) for memory in MEMORIES],
    ),
    Claim(
        "iCaRL and MIR compute more than ER (relative difference of multiply-adds)",
        "5.4 Computation Budget",
        "%",
        exactly_positive,
        [Part(f"{row}, M = 20", relative, _pair(T1, f"{row} †", "ER", "M = 20", "tflops")) for row in ("iCaRL", "MIR")],
    ),
    Claim(
        "ER-ACE ends above a single pass over shuffled data (iid) on Split MiniImageNet",
        "5.4 Longer Task Sequence",
        "points",
        positive,
        [Part("M = 100", difference, _pair(T2, "ER-ACE", "iid", MINI))],
    ),
    Claim(
        "Without task boundaries ER-ACE and ER-AML end above ER and DER++ (lead over the better of these)",
        "5.5 Blurry Task Boundaries",
        "points",
        positive,
        [
            Part(f"{row}, {memory}", lead, [[At(T3, each, memory) for each in (row, "ER", "DER++, augmented")]])
            for memory in ("M = 20", "M = 100")
            for row in ("ER-ACE", "ER-AML")
        ],
    ),
    Claim(
        "ER-ACE and ER-AML end above ER and DER++ at any level of blur (mean lead over five levels)",
        "J Additional Blurry Task Boundaries",
        "points",
        positive,
        [
            Part(row, lead, [[At(T8, each, column.title) for each in (row, "ER", "DER++")] for column in T8.columns])
            for row in ("ER-ACE", "ER-AML")
        ],
    ),
    Claim(
        "With limited data ER-ACE and ER-AML end above ER, DER++ and SS-IL (mean lead over four shares of the data)",
        "K Limited training data",
        "points",
        positive,
        [
            Part(
                row,
                lead,
                [
                    [At(T9, each, column.title) for each in (row, "ER", "DER++, augmented", "SS-IL †")]
                    for column in T9.columns
                ],
            )
            for row in ("ER-ACE", "ER-AML")
        ],
    ),
    Claim(
        "SS-IL does worse than chance on the present task (chance among the classes met less accuracy, tasks 2 to 5)",
        "B SS-IL fails to learn the current task",
        "points",
        positive,
        [Part("M = 20", opposite, [[At(BESIDE, "SS-IL †, present task", "M = 20", "present_task")]])],
    ),
    Claim(
        "With balanced rehearsal SS-IL ends above ER",
        "B SS-IL does more than correcting for class imbalance",
        "points",
        positive,
        [Part(column.title, difference, _pair(T4, "SS-IL †", "ER", column.title)) for column in T4.columns],
    ),
    Claim(
        "With balanced rehearsal SS-IL leads ER by more where memory is small (lead at M = 20 less that at M = 100)",
        "B SS-IL does more than correcting for class imbalance",
        "points",
        positive,
        [
            Part(
                "balanced",
                difference_of(difference),
                [list(chain(*(_pair(T4, "SS-IL †", "ER", memory)[0] for memory in ("M = 20", "M = 100"))))],
            )
        ],
    ),
    Claim(
        "Taking negatives from incoming classes only raises the accuracy of ER-AML",
        "G Ablations Negative Selection",
        "points",
        positive,
        [
            Part(
                column.title, difference, _pair(T7, "ER-AML, incoming negatives", "ER-AML, all negatives", column.title)
            )
            for column in T7.columns
        ],
    ),
    Claim(
        "With all negatives ER-AML ends slightly above ER",
        "G Ablations Negative Selection",
        "points",
        positive,
        [
            Part(column.title, difference, _pair(T7, "ER-AML, all negatives", "ER", column.title))
            for column in T7.columns
        ],
    ),
    Claim(
        "Taking negatives from incoming classes only makes samples in memory drift less in the second task",
        "4.2 Negative Selection; F ER-AML with Triplet loss",
        "",
        positive,
        [
            Part(
                "SupCon", difference, _pair(BESIDE, "ER-AML, all negatives, drift", "ER-AML, drift", "M = 20", "drift")
            ),
            Part(
                "triplet",
                difference,
                _pair(T5, "ER-AML triplet, all negatives", "ER-AML triplet, incoming negatives", "M = 20", "drift"),
            ),
        ],
        digits=4,
    ),
    Claim(
        "ER-AML ends above ER with the triplet loss, too",
        "F ER-AML with Triplet loss",
        "points",
        positive,
        [Part(column.title, difference, _pair(T6, "ER-AML triplet", "ER", column.title)) for column in T6.columns],
    ),
    Claim(
        "With more memory SupCon is better than the triplet loss",
        "F ER-AML with Triplet loss",
        "points",
        positive,
        [
            Part(memory, difference, _pair(T6, "ER-AML SupCon", "ER-AML triplet", memory))
            for memory in ("M = 50", "M = 100")
        ],
    ),
    Claim(
        "ACE raises the accuracy of DER++",
        "D combining ER-ACE with DER++",
        "points",
        positive,
        [
            Part(
                "M = 20",
                difference,
                [[At(BESIDE, "DER++ with ACE, augmented", "M = 20"), At(T1, "DER++, augmented", "M = 20")]],
            )
        ],
    ),
    Claim(
        "ACE lowers the forgetting of DER++",
        "D combining ER-ACE with DER++",
        "points",
        positive,
        [
            Part(
                "M = 20",
                difference,
                [
                    [
                        At(T1, "DER++, augmented", "M = 20", "forgetting"),
                        At(BESIDE, "DER++ with ACE, augmented", "M = 20", "forgetting"),
                    ]
                ],
            )
        ],
    ),
    Claim(
        "Samples in memory stay closer to held-out ones of their class under ER-ACE than under ER (cosine)",
        "C Overfitting on buffered samples",
        "",
        positive,
        [Part("M = 20", difference, _pair(BESIDE, "ER-ACE, alignment", "ER, alignment", "M = 20", "alignment"))],
        digits=3,
    ),
]
