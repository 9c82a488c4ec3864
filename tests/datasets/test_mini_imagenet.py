import errno
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import holdfast
from holdfast.commands.main import main
from holdfast.datasets import Dataset, get, listing, load, mini_imagenet
from holdfast.datasets.folder import pixels
from holdfast.errors import DataError
from holdfast.streams import named

CLASSES, IMAGES = 4, 12
NAMES = tuple(f"n0{label}" for label in range(CLASSES))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 classes of 12 images, of which 3 are for the test."""
    monkeypatch.setattr(mini_imagenet, "LAYOUT", mini_imagenet.Layout(classes=CLASSES, train=9, test=3))


def paint(path: Path, label: int, image: int) -> None:
    """The colour tells the class and the image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (84 + image, 90 - label), (60 * label, 20 * image, 128)).save(path)


def filename(label: int, image: int) -> str:
    return f"{NAMES[label]}{image:08}.{'png' if image % 2 else 'jpg'}"


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Classes 2 and 0 to train, interleaved, 3 to validate, 1 to test; images from the last to the first."""
    source = tmp_path / "lists"
    for part, labels in (("train", (2, 0)), ("val", (3,)), ("test", (1,))):
        rows = [(filename(label, image), label, image) for image in reversed(range(IMAGES)) for label in labels]
        for file, label, image in rows:
            paint(source / "images" / file, label, image)
        lines = ["filename,label", *(f"{file},{NAMES[label]}" for file, label, _ in rows)]
        (source / f"{part}.csv").write_text("\n".join(lines) + "\n")
    return source


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    return class_folders(tmp_path / "folders", [""] * CLASSES)


def class_folders(source: Path, parts: list[str]) -> Path:
    for label in range(CLASSES):
        for image in range(IMAGES):
            paint(source / parts[label] / NAMES[label] / filename(label, image), label, image)
    return source


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def brought(source: Path, root: Path) -> Dataset:
    get.get("mini-imagenet", root, source)
    return load("mini-imagenet", root)


def painted(x: NDArray[np.generic]) -> list[tuple[int, int]]:
    """The class and the image that each colour tells."""
    colours = np.asarray(x, np.float64).mean((2, 3)) / (60, 20, 128)
    return [(label, image) for label, image, _ in colours.round().astype(int).tolist()]


def test_lists_give_the_order_of_classes_and_images(lists: Path, root: Path) -> None:
    dataset = brought(lists, root)
    assert dataset.classes == ("n02", "n00", "n03", "n01")
    assert dataset.sample_shape == (3, 84, 84) and dataset.train_x.dtype == np.uint8
    assert painted(dataset.test_x) == [(label, image) for label in (2, 0, 3, 1) for image in (11, 10, 9)]
    assert painted(dataset.train_x) == [(label, image) for label in (2, 0, 3, 1) for image in range(8, -1, -1)]
    assert dataset.test_y.tolist() == np.repeat(range(4), 3).tolist()
    assert dataset.train_y.tolist() == np.repeat(range(4), 9).tolist()


def test_class_folders_come_sorted(folders: Path, root: Path) -> None:
    dataset = brought(folders, root)
    assert dataset.classes == NAMES
    assert painted(dataset.test_x) == [(label, image) for label in range(4) for image in (0, 1, 2)]
    assert painted(dataset.train_x) == [(label, image) for label in range(4) for image in range(3, 12)]


def test_class_folders_may_lie_in_the_parts_of_the_split(folders: Path, tmp_path: Path) -> None:
    """The classes of train come first, as in the lists, and none is in two parts: the first images are for the test."""
    flat = brought(folders, tmp_path / "one")
    nested = brought(class_folders(tmp_path / "nested", ["val", "train", "test", "train"]), tmp_path / "two")
    assert nested.classes == ("n01", "n03", "n00", "n02")
    assert painted(nested.test_x) == [(label, image) for label in (1, 3, 0, 2) for image in (0, 1, 2)]
    assert sorted(painted(nested.train_x)) == sorted(painted(flat.train_x))


def split_folders(source: Path, images: dict[str, tuple[int, ...]]) -> Path:
    """Each class in each part, with these images of it."""
    for part, numbers in images.items():
        for label in range(CLASSES):
            for image in numbers:
                paint(source / part / NAMES[label] / filename(label, image), label, image)
    return source


@pytest.mark.parametrize(
    "images",
    [
        {"train": (0, 1, 2, 3, 5, 6, 7, 8, 10), "val": (4, 9, 11)},
        {"train": (0, 1, 2, 3, 5, 6, 7, 8, 10), "test": (4, 9, 11)},
        {"train": (0, 1, 2, 3, 5, 6), "val": (7, 8, 10), "test": (4, 9, 11)},
    ],
    ids=", ".join,
)
def test_a_split_into_train_and_test_is_respected(images: dict[str, tuple[int, ...]], tmp_path: Path) -> None:
    """What is in val is for the test, unless there is something in test."""
    dataset = brought(split_folders(tmp_path / "split", images), tmp_path / "root")
    assert dataset.classes == NAMES
    assert painted(dataset.test_x) == [(label, image) for label in range(4) for image in (4, 9, 11)]
    assert painted(dataset.train_x) == [(label, image) for label in range(4) for image in (0, 1, 2, 3, 5, 6, 7, 8, 10)]


def test_a_split_with_too_much_in_one_part_is_refused(tmp_path: Path, root: Path) -> None:
    source = split_folders(tmp_path / "split", {"train": tuple(range(8)), "val": (8, 9, 10, 11)})
    with pytest.raises(DataError, match="has 8 images to train on and 4 in val/, where 9 and 3 are right"):
        get.get("mini-imagenet", root, source)
    assert nothing_half_written(root)


def test_the_usual_form_of_a_list_is_taken(lists: Path, root: Path) -> None:
    """With the mark that spreadsheets put first, their line ends and an empty line."""
    text = (lists / "val.csv").read_text()
    (lists / "val.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() + b"\r\n")
    assert brought(lists, root).classes[2] == "n03"


def test_the_real_number_of_classes(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mini_imagenet, "LAYOUT", mini_imagenet.Layout(train=2, test=1, side=4))
    names = [f"n{number:08}" for number in range(100)]
    for label, name in enumerate(names):
        for image in range(3):
            path = tmp_path / "source" / name / f"{image}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (5, 4), (label, image, 0)).save(path)
    dataset = brought(tmp_path / "source", root)
    assert dataset.classes == tuple(names)
    assert dataset.train_x[:, 0, 0, 0].tolist() == dataset.train_y.tolist() == np.repeat(range(100), 2).tolist()
    assert [len(task) for task in named("mini-imagenet", root).tasks] == [5] * 20


@pytest.mark.parametrize("form", ["class folders", "folders of the few-shot split", "split", "lists"])
def test_its_own_classes_have_one_order_whatever_they_come_from(
    form: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mini_imagenet, "LAYOUT", mini_imagenet.Layout(train=1, test=1, side=4))
    text = (Path(mini_imagenet.__file__).parent / "mini_imagenet_classes.txt").read_text()
    names = [word for word in text.split() if re.fullmatch(r"n\d{8}", word)]
    assert len(set(names)) == 100 and all(part == sorted(part) for part in (names[:64], names[64:80], names[80:]))
    source, lines = tmp_path / "source", {"train": "filename,label\n"}
    for name in sorted(names, reverse=True):
        few_shot = "train" if name in names[:64] else "val" if name in names[64:80] else "test"
        for part, image in (("train", f"{name}1.png"), ("val", f"{name}2.png")):
            folder = {"class folders": name, "split": f"{part}/{name}", "lists": "images"}.get(
                form, f"{few_shot}/{name}"
            )
            (source / folder).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 4)).save(source / folder / image)
            lines["train"] += f"{image},{name}\n"
    if form == "lists":
        for part in ("train", "val", "test"):
            (source / f"{part}.csv").write_text(lines.get(part, "filename,label\n"))
    assert brought(source, root).classes == tuple(names)


def test_the_dataset_as_published() -> None:
    layout = mini_imagenet.Layout()
    assert (layout.classes, layout.train, layout.test, layout.sample_shape) == (100, 500, 100, (3, 84, 84))


@pytest.mark.slow
def test_a_net_learns_from_it(lists: Path, root: Path) -> None:
    brought(lists, root)
    stream = named("mini-imagenet:tasks=2,batch=6", root)
    learner = holdfast.Learner(holdfast.slim_resnet18(stream.dataset.sample_shape), holdfast.ERACE(), memory=20)
    for i in (0, 1, 3):
        x, y, _ = stream.batch(i)
        learner.observe(x, y.tolist())
    assert learner.predict_proba(stream.dataset.test_x[:2]).shape == (2, 4)


def test_what_is_loaded_is_the_callers_to_change(folders: Path, root: Path) -> None:
    brought(folders, root).train_x[:] = 0
    get.verify("mini-imagenet", root)
    assert load("mini-imagenet", root).train_x.any()


def test_the_sums_are_those_of_the_files(folders: Path, root: Path) -> None:
    brought(folders, root)
    folder = root / "mini-imagenet"
    files = ("train.bin", "test.bin", "classes.txt")
    sums = {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in files}
    assert get.verify("mini-imagenet", root) == sums
    assert (folder / "SHA256SUMS").read_text() == "".join(f"{sums[file]}  {file}\n" for file in files)


@pytest.mark.parametrize("file", ["train.bin", "test.bin", "classes.txt"])
def test_one_changed_byte_is_found(folders: Path, root: Path, file: str) -> None:
    brought(folders, root)
    path = root / "mini-imagenet" / file
    content = bytearray(path.read_bytes())
    content[1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"is damaged: {file} is not what was written"):
        get.verify("mini-imagenet", root)


def test_a_short_file_is_found_and_replaced(folders: Path, root: Path) -> None:
    brought(folders, root)
    (root / "mini-imagenet/test.bin").write_bytes(b"short")
    with pytest.raises(DataError, match=r"test\.bin has 5 bytes where 254016 are right: run `holdfast data get"):
        load("mini-imagenet", root)
    said: list[str] = []
    get.get("mini-imagenet", root, folders, said.append)
    assert "test.bin has 5 bytes" in said[0] and "verified" in said[-1]
    get.verify("mini-imagenet", root)


@pytest.mark.parametrize("file", ["train.bin", "test.bin", "classes.txt", "SHA256SUMS"])
def test_a_missing_file_is_named(folders: Path, root: Path, file: str) -> None:
    brought(folders, root)
    (root / "mini-imagenet" / file).unlink()
    with pytest.raises(DataError, match=f"{file} is missing"):
        load("mini-imagenet", root)


def test_a_wrong_number_of_class_names_is_found(folders: Path, root: Path) -> None:
    brought(folders, root)
    (root / "mini-imagenet/classes.txt").write_text("n00\n")
    with pytest.raises(DataError, match=r"classes\.txt names 1 classes where 4 are right"):
        load("mini-imagenet", root)


def test_what_is_there_is_not_decoded_again(folders: Path, root: Path) -> None:
    brought(folders, root)
    said: list[str] = []
    get.get("mini-imagenet", root, say=said.append)
    assert said == [f"mini-imagenet is already in {root}, verified"]


def edited(path: str, edit: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda source: (source / path).write_bytes(edit((source / path).read_bytes()))


def removed(path: str) -> Callable[[Path], object]:
    return lambda source: (source / path).unlink()


def cut_short(path: str) -> Callable[[Path], object]:
    return edited(path, lambda content: content[:100])


def added(row: str) -> Callable[[Path], object]:
    return edited("val.csv", lambda content: content + f"{row}\n".encode())


def replaced(old: str, new: str) -> Callable[[Path], object]:
    return edited("val.csv", lambda content: content.replace(old.encode(), new.encode()))


def nothing_half_written(root: Path) -> bool:
    return [each.name for each in root.iterdir()] == [".mini-imagenet.lock"]


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (removed("val.csv"), "val.csv is missing: the lists go together"),
        (removed("images/n0000000004.jpg"), "names n0000000004.jpg, but"),
        (cut_short("images/n0000000003.png"), "n0000000003.png cannot be read as an image"),
        (cut_short("images/n0000000004.jpg"), "n0000000004.jpg cannot be read as an image"),
        (added("n0300000000.jpg,n03"), "val.csv line 14 names n0300000000.jpg again"),
        (added("n0300000000.jpg"), "val.csv line 14 is 'n0300000000.jpg' where a filename and a label"),
        (added("a.jpg,"), "val.csv line 14 is 'a.jpg,' where"),
        (added("a.jpg,n03,b"), "val.csv line 14 is 'a.jpg,n03,b' where"),
        (replaced("filename,label", "file,class"), "val.csv begins with 'file,class' where 'filename,label'"),
        (replaced("filename,label\n", ""), "val.csv begins with 'n0300000011.png,n03' where"),
        (replaced("n0300000000.jpg,n03", "n0300000000.jpg,n04"), "has 5 classes where 4 are right"),
        (replaced("n0300000000.jpg,n03\n", ""), "lists has 11 images where 12 are right"),
        (replaced(",n03", ",n01"), "has 3 classes where 4 are right"),
        (edited("val.csv", lambda content: b"\xff" + content), "val.csv cannot be read"),
    ],
)
def test_a_mistake_in_the_lists_is_named_and_leaves_nothing(
    lists: Path, root: Path, mistake: Callable[[Path], object], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mistake(lists)
    assert main(["data", "get", "mini-imagenet", "--from", str(lists), "--data", str(root)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert nothing_half_written(root)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (removed("n02/n0200000004.jpg"), "the class 'n02' of .*folders has 11 images where 12 are right"),
        (lambda source: paint(source / "n02/more.png", 2, 0), "the class 'n02' of .*folders has 13 images where 12"),
        (lambda source: paint(source / "n04/0.png", 3, 0), "folders has 5 classes where 4 are right: give a folder"),
        (lambda source: (source / "n03").rename(source / ".n03"), "folders has 3 classes where 4 are right"),
        (lambda source: (source / "n04").mkdir(), "n04 has no images"),
        (cut_short("n03/n0300000011.png"), r"n0300000011\.png cannot be read as an image"),
    ],
)
def test_a_mistake_in_the_folders_is_named_and_leaves_nothing(
    folders: Path, root: Path, mistake: Callable[[Path], object], message: str
) -> None:
    mistake(folders)
    with pytest.raises(DataError, match=message) as caught:
        get.get("mini-imagenet", root, folders)
    assert "\n" not in str(caught.value)
    assert nothing_half_written(root)


@pytest.mark.parametrize("source", ["nowhere", "file"])
def test_a_source_that_is_no_folder_is_refused(tmp_path: Path, root: Path, source: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        DataError, match=rf"{source} (does not exist|is not a folder): give a folder with images/ and train.csv"
    ):
        get.get("mini-imagenet", root, tmp_path / source)


def test_without_a_source_it_says_what_to_do(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", "mini-imagenet", "--data", str(root)]) == 2
    error = capsys.readouterr().err
    assert "cannot be downloaded" in error and "`holdfast data get mini-imagenet --from PATH` takes a folder" in error
    assert error.count("\n") == 1


def test_the_commands(folders: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--data", str(root)]
    assert main(["data", "verify", "mini-imagenet", *at]) == 2
    assert "run `holdfast data get mini-imagenet --from PATH`" in capsys.readouterr().err
    assert main(["data", "get", "mini-imagenet", "--from", str(folders), *at]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "decoding 48 images",
        f"mini-imagenet is in {root}, from {folders}, verified",
    ]
    assert main(["data", "verify", "mini-imagenet", *at]) == 0
    assert "mini-imagenet train.bin: right (" in capsys.readouterr().out


def test_the_listing_sees_it(folders: Path, root: Path) -> None:
    facts = ("mini-imagenet", 4, 36, 12, (3, 84, 84))
    assert listing(root)[-1] == (*facts, "holdfast data get mini-imagenet --from PATH")
    brought(folders, root)
    assert listing(root)[-1] == (*facts, "present")


def test_progress_is_shown_on_a_terminal(
    folders: Path, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    brought(folders, root)
    assert "/48" in capsys.readouterr().err


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_a_stop_in_the_middle_leaves_nothing(
    folders: Path, root: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def failing(path: Path, side: int) -> NDArray[np.uint8]:
        if path.name == filename(2, 5):
            raise failure
        return pixels(path, side)

    with monkeypatch.context() as patch:
        patch.setattr(mini_imagenet, "pixels", failing)
        with pytest.raises((KeyboardInterrupt, DataError)):
            get.get("mini-imagenet", root, folders)
    assert nothing_half_written(root)
    brought(folders, root)
    get.verify("mini-imagenet", root)
