from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from holdfast.datasets.folder import folder, pixels, split
from holdfast.errors import DataError, InputError

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def paint(path: Path, colour: tuple[int, int, int] = RED, size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def test_images_of_any_kind_and_size_become_equal_rgb_squares(tmp_path: Path) -> None:
    for i, kind in enumerate(("png", "jpg", "jpeg", "bmp", "webp", "gif", "PNG")):
        paint(tmp_path / "red" / f"{i}.{kind}", RED, (5 + 9 * i, 40 - 4 * i))
        paint(tmp_path / "blue" / f"{i}.{kind}", BLUE, (50, 3 + i))
    dataset = folder(tmp_path, size=16)
    assert dataset.classes == ("blue", "red")
    assert dataset.sample_shape == (3, 16, 16)
    assert dataset.train_x.dtype == np.uint8
    assert (len(dataset.train_x), len(dataset.test_x)) == (10, 4)
    for x, y in ((dataset.train_x, dataset.train_y), (dataset.test_x, dataset.test_y)):
        brightest = x.mean(axis=(2, 3)).argmax(axis=1)
        assert (np.where(y == 0, 2, 0) == brightest).all()


def test_the_centre_of_a_long_image_is_kept_undistorted(tmp_path: Path) -> None:
    image = Image.new("RGB", (30, 10), RED)
    image.paste(Image.new("RGB", (10, 10), GREEN), (10, 0))
    (tmp_path / "a").mkdir()
    image.save(tmp_path / "a/0.png")
    image.save(tmp_path / "a/1.png")
    assert (folder(tmp_path, size=10).train_x[0] == np.array(GREEN)[:, None, None]).all()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_every_colour_mode_is_read(tmp_path: Path, mode: str) -> None:
    (tmp_path / "a").mkdir()
    suffix = "tiff" if mode == "CMYK" else "png"
    for i in range(2):
        Image.new("RGB", (4, 4), (255, 255, 255)).convert(mode).save(tmp_path / f"a/{i}.{suffix}")
    assert (folder(tmp_path, size=4).train_x == 255).all()


def test_sixteen_bits_of_grey_keep_their_shades(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for i in range(2):
        Image.fromarray(np.full((4, 4), 0x8000, np.uint16)).save(tmp_path / f"a/{i}.png")
    assert (folder(tmp_path, size=4).train_x == 0x80).all()


def test_transparent_palette_images_are_read_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for i in range(2):
        Image.new("P", (4, 4)).save(tmp_path / f"a/{i}.png", transparency=b"\x00\x80")
    assert len(folder(tmp_path).train_x) == 1


def test_train_and_test_folders_are_the_two_parts(tmp_path: Path) -> None:
    for i in range(3):
        paint(tmp_path / f"train/cat/{i}.png")
        paint(tmp_path / f"train/dog/{i}.png")
    paint(tmp_path / "test/cat/0.png")
    paint(tmp_path / "test/dog/0.png")
    dataset = folder(tmp_path)
    assert dataset.train_y.tolist() == [0, 0, 0, 1, 1, 1]
    assert dataset.test_y.tolist() == [0, 1]
    assert dataset.sample_shape == (3, 32, 32)


@pytest.mark.parametrize(
    ("folders", "tested", "said"),
    [
        (("Training", "Test"), "Test", "training on Training, testing on Test"),
        (("train", "val", "test"), "test", "training on train, testing on test, val is not used"),
        (("TRAIN", "Validation"), "Validation", "training on TRAIN, testing on Validation"),
    ],
)
def test_other_names_of_the_two_parts(tmp_path: Path, folders: tuple[str, ...], tested: str, said: str) -> None:
    for name in folders:
        for kind in ("cat", "dog"):
            paint(tmp_path / name / kind / "0.png", GREEN if name == tested else RED)
    dataset = folder(tmp_path, size=4)
    assert (len(dataset.train_x), len(dataset.test_x)) == (2, 2)
    assert (dataset.test_x[:, 1] == 255).all() and (dataset.train_x[:, 0] == 255).all()
    assert dataset.notes[0] == said


def test_where_there_is_nothing_to_test_on_it_says_what_is_done(tmp_path: Path) -> None:
    for i in range(12):
        paint(tmp_path / f"train/cat/{i:02}.png")
    dataset = folder(tmp_path)
    assert (len(dataset.train_x), len(dataset.test_x)) == (10, 2)
    assert "every sixth image" in dataset.notes[0] and "32 × 32" in dataset.notes[1]


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    for kind in ("train", "plane"):
        paint(tmp_path / kind / "0.png")
        paint(tmp_path / kind / "1.png")
    assert folder(tmp_path).classes == ("plane", "train")


class TestDecodedOnce:
    @pytest.fixture
    def photos(self, tmp_path: Path) -> Path:
        for i in range(6):
            paint(tmp_path / f"photos/cat/{i}.png", BLUE)
        return tmp_path / "photos"

    @pytest.fixture
    def count(self, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
        decoded: list[Path] = []

        def counted(path: Path, size: int) -> object:
            decoded.append(path)
            return pixels(path, size)

        monkeypatch.setattr("holdfast.datasets.folder.pixels", counted)
        return decoded

    def test_the_second_time_nothing_is_decoded(self, photos: Path, tmp_path: Path, count: list[Path]) -> None:
        first = folder(photos, 4, tmp_path / "cache")
        again = folder(photos, 4, tmp_path / "cache")
        assert len(count) == 6
        assert (first.train_x == again.train_x).all() and (first.test_x == again.test_x).all()

    def test_another_size_or_a_changed_file_is_decoded(self, photos: Path, tmp_path: Path, count: list[Path]) -> None:
        folder(photos, 4, tmp_path / "cache")
        assert folder(photos, 5, tmp_path / "cache").sample_shape == (3, 5, 5)
        assert len(count) == 12
        paint(photos / "cat/3.png", RED, (9, 9))
        assert (folder(photos, 4, tmp_path / "cache").train_x[2, 0] == 255).all()

    def test_damage_is_noticed(self, photos: Path, tmp_path: Path) -> None:
        right = folder(photos, 4, tmp_path / "cache").train_x
        for file in (tmp_path / "cache/decoded").iterdir():
            content = bytearray(file.read_bytes())
            content[-1] ^= 1
            file.write_bytes(content)
        assert (folder(photos, 4, tmp_path / "cache").train_x == right).all()

    def test_without_a_place_to_write_it_works(self, photos: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("no folder")
        assert len(folder(photos, 4, tmp_path / "file").train_x) == 5

    def test_those_not_used_for_longest_make_room(
        self, photos: Path, tmp_path: Path, count: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("holdfast.datasets.decoded.MOST_BYTES", 6 * 3 * 16 + 4 * 32)
        for size in (4, 3, 4):
            folder(photos, size, tmp_path / "cache")
        held = sum(file.stat().st_size for file in (tmp_path / "cache/decoded").iterdir())
        assert 0 < held <= 6 * 3 * 16 + 4 * 32


@given(st.integers(2, 100))
def test_every_sixth_image_is_for_the_test_and_none_is_lost(count: int) -> None:
    images = [Path(f"{i:03}.png") for i in range(count)]
    train, test = split({"a": images})
    assert test["a"] == images[::6]
    assert sorted(train["a"] + test["a"]) == images
    assert train["a"]


def test_files_that_are_no_images_are_passed_over(tmp_path: Path) -> None:
    paint(tmp_path / "a/0.png")
    paint(tmp_path / "a/1.png")
    for name in ("a/notes.txt", "a/.DS_Store", "a/._0.png", "readme.md"):
        (tmp_path / name).write_text("no image")
    (tmp_path / ".cache").mkdir()
    dataset = folder(tmp_path)
    assert dataset.classes == ("a",)
    assert len(dataset.train_x) + len(dataset.test_x) == 2


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is not a folder"):
        folder(tmp_path / "nowhere")


def test_a_folder_without_class_folders_is_refused(tmp_path: Path) -> None:
    paint(tmp_path / "0.png")
    with pytest.raises(DataError, match="has no class folders"):
        folder(tmp_path)


def test_an_empty_class_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty has no images"):
        folder(tmp_path)


def test_a_class_of_one_image_cannot_be_split(tmp_path: Path) -> None:
    paint(tmp_path / "single/0.png")
    with pytest.raises(DataError, match="single has 1 image: at least 2"):
        folder(tmp_path)


@pytest.mark.parametrize("keep", [0, 60])
def test_an_unreadable_image_is_named(tmp_path: Path, keep: int) -> None:
    paint(tmp_path / "a/0.png", size=(64, 64))
    broken = tmp_path / "a/1.png"
    broken.write_bytes((tmp_path / "a/0.png").read_bytes()[:keep])
    with pytest.raises(DataError, match=r"1\.png cannot be read as an image") as caught:
        folder(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("has", "lacks"), [("test", "train"), ("train", "test")])
def test_a_class_of_one_part_only_is_refused(tmp_path: Path, has: str, lacks: str) -> None:
    paint(tmp_path / "train/cat/0.png")
    paint(tmp_path / "test/cat/0.png")
    paint(tmp_path / has / "dog/0.png")
    with pytest.raises(DataError, match=f"{has} has the class 'dog', which .*{lacks} has not"):
        folder(tmp_path)


def test_a_size_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 1 pixel"):
        folder(tmp_path, size=0)
