import numpy as np
import pytest
import torch
from fvcore.nn import FlopCountAnalysis
from torch.utils.flop_counter import FlopCounterMode

from holdfast import ER, ERACE, ERAML, FineTuning, IIDPlusPlus, Learner, Method, mlp, slim_resnet18, small_cnn
from holdfast.measure.ledger import Ledger, measure
from holdfast.nets import LinearHead, Net


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 84, 84)])
def test_forward_multiply_adds_against_fvcore(shape: tuple[int, ...]) -> None:
    net, x = slim_resnet18(shape), torch.zeros(2, *shape)
    theirs = FlopCountAnalysis(net.eval(), x).unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    only = theirs.by_operator()["conv"]
    assert measure(net, x)[0] == only


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("width", "whole", "convolutions"), [(20, 55_005_760, 54_620_160), (64, 556_651_520, 555_417_600)]
)
def test_forwards_in_the_unit_of_the_published_figures(width: int, whole: int, convolutions: int) -> None:
    """fvcore in evaluation mode, which counts BatchNorm, too: what the methods' pages explain the paper's cost with."""
    net = torch.nn.Sequential(slim_resnet18(width=width), torch.nn.Linear(8 * width, 10)).eval()
    theirs = FlopCountAnalysis(net, torch.zeros(1, 3, 32, 32)).unsupported_ops_warnings(False)
    assert theirs.total() == whole
    assert theirs.by_operator()["conv"] == convolutions


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [ER(), ERACE(), ERAML(), ERAML(fetch="incoming-first"), FineTuning(), IIDPlusPlus()],
    ids=repr,
)
def test_a_step_costs_what_a_counter_around_the_whole_step_counts(method: Method) -> None:
    """The ledger sees calls of the net only; what a loss multiplies itself is under 0.01 % on this net."""
    learner, twin = (Learner(slim_resnet18(), method, memory=50, classes=10) for _ in range(2))
    rng = np.random.default_rng(0)
    ledger = Ledger()
    for step in range(3):
        x, y = rng.integers(0, 256, (10, 3, 32, 32), np.uint8), rng.integers(2 * step, 2 * step + 2, 10)
        before = ledger.train_macs
        with ledger.watch("training"):
            learner.observe(x, y)
        with FlopCounterMode(display=False) as counter:
            twin.observe(x, y)
        assert ledger.train_macs - before == pytest.approx(counter.get_total_flops() / 2, rel=1e-4)
    assert learner.state_hash() == twin.state_hash()


def test_a_cifar_run_costs_what_the_paper_says() -> None:
    """iid 8, ER 17 tera multiply-adds for 5,000 updates; one forward at 32×32 is about 55 M."""
    forward, backward = measure(slim_resnet18(), torch.zeros(10, 3, 32, 32))
    assert forward / 10 == pytest.approx(55e6, rel=0.02)
    assert 5000 * (forward + backward) / 1e12 == pytest.approx(8, rel=0.05)
    assert 5000 * 2 * (forward + backward) / 1e12 == pytest.approx(17, rel=0.05)


def test_forwards_that_nothing_is_learned_from_have_their_own_accounts() -> None:
    learner = Learner(small_cnn((1, 28, 28)), ER(), memory=10)
    x = np.zeros((4, 1, 28, 28), np.uint8)
    learner.observe(x, list("abab"))
    ledger = Ledger()
    with ledger.watch("training"), torch.no_grad():
        learner.net(torch.from_numpy(x))
    with ledger.watch("evaluation"):
        learner.predict(x)
    assert ledger.macs["forward"] == ledger.macs["backward"] == 0
    assert ledger.macs["retrieval"] == ledger.macs["evaluation"] > 0
    assert ledger.train_macs == ledger.macs["retrieval"]
    learner.predict(x)
    assert ledger.macs["retrieval"] == ledger.macs["evaluation"]


def test_bytes_are_parameters_and_memory_averaged() -> None:
    learner = Learner(small_cnn((1, 28, 28)), ER(), memory=100)
    ledger = Ledger()
    parameters = 0
    for _ in range(2):
        learner.observe(np.zeros((10, 1, 28, 28), np.uint8), list("ab") * 5)
        ledger.weigh(learner)
        parameters = 4 * sum(p.numel() for p in learner.net.parameters())
    per_sample = 784 + 8 + 8 + 24  # pixels, label, arrival, index
    assert ledger.mean_bytes == parameters + 15 * per_sample


def test_what_a_call_costs_does_not_depend_on_who_asked_first() -> None:
    """Costs of built-in nets are measured once a process, maybe in inference mode."""
    x = torch.zeros(7, 5)
    ledgers = Ledger(), Ledger()
    for ledger, mode in zip(ledgers, (torch.inference_mode(), torch.enable_grad()), strict=True):
        net = Net(mlp((5,), width=31), LinearHead())
        with mode, ledger.watch("training"):
            net.features(x)
    asked, learned = (ledger.macs for ledger in ledgers)
    assert asked["retrieval"] == learned["forward"] > 0
    assert asked["backward"] == 0 and learned["backward"] > learned["forward"]


def test_a_call_with_other_parameters_in_place_costs_no_learning_call_its_backward() -> None:
    """MIR looks at memory samples through parameters that stand in for the net's own and need no gradient."""
    x = torch.zeros(7, 5)
    net = Net(mlp((5,), width=29), LinearHead())
    ledger = Ledger()
    with ledger.watch("training"):
        net.encoder(torch.zeros(3, 5))
        before = dict(ledger.macs)
        still = {name: parameter.detach() for name, parameter in net.encoder.named_parameters()}
        torch.func.functional_call(net.encoder, still, (x,))
        assert ledger.macs["backward"] == before["backward"]
        net.encoder(x)
    assert ledger.macs["backward"] > 2 * before["backward"]
