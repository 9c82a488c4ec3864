"""A user's own arrays from an .npz file."""

import math
from pathlib import Path
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, read_array_header_1_0, read_array_header_2_0, read_magic
from numpy.typing import NDArray

from holdfast.datasets.base import Dataset, from_arrays, is_table_of_whole_numbers
from holdfast.errors import DataError

SMALL, MOST_COMPRESSED = 2**30, 100  # whatever the file's size, and times the file's size
KEYS = ("train_x", "train_y", "test_x", "test_y")


def npz(path: str | Path) -> Dataset:
    """The dataset of train_x, train_y, test_x and test_y."""
    path = Path(path)
    arrays = read(path)
    for part in ("train", "test"):
        x, y = arrays[f"{part}_x"], arrays[f"{part}_y"]
        if x.ndim < 2 or not (x.dtype == np.uint8 or x.dtype.kind == "f" or is_table_of_whole_numbers(x)):
            more = "; images from 0 to 255 are x.astype(np.uint8)" if x.ndim > 2 and x.dtype.kind in "iu" else ""
            raise DataError(
                f"{path}: {part}_x is {described(x)}; it must hold uint8 or float, one sample per row{more}"
            )
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise DataError(f"{path}: {part}_x has values that are NaN or infinite")
        if y.ndim != 1:
            raise DataError(f"{path}: {part}_y is {described(y)}; it must hold one label per sample")
        if not len(x):
            raise DataError(f"{path}: {part}_x is empty; it must hold at least one sample")
    return from_arrays(**arrays, name=path.stem)


def read(path: Path) -> dict[str, NDArray[np.generic]]:
    if not path.is_file():
        raise DataError(f"{path} is not a file: give an .npz with {', '.join(KEYS)}")
    with path.open("rb") as stream:
        if stream.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
            raise DataError(f"{path} is a single array: give an .npz with {', '.join(KEYS)}")
        stream.seek(0)
        try:
            file = np.load(stream, allow_pickle=False)
        except (ValueError, EOFError, OSError, BadZipFile) as error:
            raise DataError(f"{path} is not an .npz file: write one with numpy.savez") from error
        if missing := [key for key in KEYS if key not in file]:
            raise DataError(f"{path} lacks {', '.join(missing)}; it has {', '.join(file) or 'nothing'}")
        return {key: member(path, file, key) for key in KEYS}


def member(path: Path, file: np.lib.npyio.NpzFile, key: str) -> NDArray[np.generic]:
    try:
        assert file.zip is not None
        check_size(path, file.zip, key)
        array = file[key]
    except (ValueError, EOFError, OSError, RuntimeError, BadZipFile, ZlibError) as error:
        if "Object arrays" in str(error):
            raise DataError(f"{path}: {key} is an array of objects; it must be of numbers or strings") from error
        raise DataError(f"{path}: {key} is damaged; write the file again with numpy.savez") from error
    except MemoryError as error:
        raise DataError(f"{path}: there is not enough memory for {key}") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: {key} is not an array; write the file again with numpy.savez")
    return array


def check_size(path: Path, file: ZipFile, key: str) -> None:
    """Before any memory is taken: the array is as large as its header says, and not out of proportion to the file."""
    for name in {key, f"{key}.npy"} & set(file.namelist()):
        unpacked, packed = file.getinfo(name).file_size, path.stat().st_size
        if unpacked > max(SMALL, packed * MOST_COMPRESSED):
            raise DataError(f"{path}: {key} would unpack to {unpacked:,} bytes, but the file has only {packed:,}")
        with file.open(name) as stream:
            if stream.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                continue
            stream.seek(0)
            read_header = read_array_header_1_0 if read_magic(stream) == (1, 0) else read_array_header_2_0
            shape, _, dtype = read_header(stream)
            size = math.prod(shape) * dtype.itemsize
            if not dtype.hasobject and (not dtype.itemsize or size != unpacked - stream.tell()):
                raise DataError(f"{path}: {key} is damaged: it is not the {dtype} of shape {shape} that it says it is")


def described(array: NDArray[np.generic]) -> str:
    return f"{array.dtype} of shape {array.shape}"
