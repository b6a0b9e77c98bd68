"""Files of old runs that are cut off, missing, stale or of another kind."""

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.interop.original_files import read_run
from tests.interop.old_runs import DATA, copied, said


def change(file, before, after):
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))


def test_a_network_that_is_cut_off_is_left_out(tmp_path):
    path = copied("gauss_partial", tmp_path / "old")
    whole = read_run(path)
    assert len(whole.hypers) == 27
    file = path / "1.2.txt"
    file.write_bytes(file.read_bytes()[:-3])  # in the middle of a number
    cut = read_run(path)
    assert len(cut.hypers) == 26
    for before, after in zip(whole.tensors, cut.tensors, strict=True):
        assert np.array_equal(before[:26], after)
    (path / "hypers2.txt").write_bytes(b"")
    assert len(read_run(path).hypers) == 20
    (path / "0.2.txt").unlink()
    assert len(read_run(path).hypers) == 20


def test_a_run_shorter_than_a_file(tmp_path):
    # TensorBNN divides by zero.
    path = copied("gauss_partial", tmp_path / "old")
    change(path / "summary.txt", "20 2 4", "0 0 4")
    found = read_run(path)
    assert (len(found.hypers), found.networks_per_file) == (10, 10)
    assert np.array_equal(found.tensors[0], said("gauss_partial")["param0"][:10])


def test_a_file_for_every_epoch(tmp_path):
    # TensorBNN numbers its files from 1 then, and can't read them.
    whole = read_run(DATA / "gauss_partial")
    (tmp_path / "architecture.txt").write_text("denseGaussian\nelu\ndenseGaussian\n")
    for index in range(4):
        for number, values in enumerate([*whole.tensors, whole.hypers[:, :, None]]):
            name = f"{number}.{index}.txt" if number < 4 else f"hypers{index}.txt"
            with (tmp_path / name).open("wb") as file:
                if index:
                    np.savetxt(file, values[index - 1])
    shapes = "5 1\n5 1\n1 5\n1 1\n"
    for summary, count in ((f"{shapes}2 2 4\n8", 3), (f"{shapes}0 0 4\n8", 1)):
        (tmp_path / "summary.txt").write_text(summary)
        found = read_run(tmp_path)
        assert np.array_equal(found.tensors[2], whole.tensors[2][:count])
        assert np.array_equal(found.hypers, whole.hypers[:count])


def test_files_of_an_earlier_run_are_not_read(tmp_path):
    path = copied("gauss_tanh", tmp_path / "old")
    change(path / "summary.txt", "100 4 6", "50 2 6")  # files 3 and 4 are of an earlier, longer run
    for file in (*path.glob("*.2.txt"), path / "hypers2.txt"):
        file.write_bytes(b"")
    assert len(read_run(path).hypers) == 50
    # In its burn-in a run has emptied file 0, and the rest is of the run before it.
    path = copied("gauss_tanh", tmp_path / "new")
    for file in (*path.glob("*.0.txt"), path / "hypers0.txt"):
        file.write_bytes(b"")
    with pytest.raises(tb.RunError, match=r"0.0.txt is damaged: it has 0 lines, but summary.txt"):
        read_run(path)


def test_damage_has_the_name_of_the_file(tmp_path):
    path = copied("gauss_partial", tmp_path / "old")
    for file, content, message in (
        ("2.1.txt", b"", "2.1.txt is damaged: it has 0 lines, but summary.txt says 10 networks"),
        ("2.1.txt", b"1 2\n", "2.1.txt has 2 columns, but summary.txt says 5"),
        ("2.1.txt", b"1 2 3 4 five\n", "2.1.txt is not a table of numbers"),
        ("2.1.txt", b"\x80\x00\n", "2.1.txt is not a table of numbers"),
        ("2.1.txt", b"1 2 3 4 5\n1 2 nan 4 5\n", "2.1.txt holds NaN .* first in line 2"),
        ("2.1.txt", None, "2.1.txt is missing"),
        (
            "hypers2.txt",
            b"1\n" * 8 * 11,
            "hypers2.txt is not of this run: it has more networks than the 10",
        ),
        ("summary.txt", b"20 2 4\n8", "is not a summary of TensorBNN"),
        ("summary.txt", b"5 0\n1 1\n20 2 2\n8", "is not a summary of TensorBNN"),
        ("summary.txt", b"import os\n", "is not a summary of TensorBNN"),
        ("summary.txt", b"\xff\xfe", "summary.txt is not a text file"),
        ("summary.txt", b"5 1\n5 1\n1 5\n1 1\n21 2 4\n8", "21 networks can't fill 2 files"),
        ("architecture.txt", b"\n", "architecture.txt is empty"),
    ):
        kept = (path / file).read_bytes()
        if content is None:
            (path / file).unlink()
        else:
            (path / file).write_bytes(content)
        others = [path / f"{number}.2.txt" for number in range(4)]
        saved = [other.read_bytes() for other in others]
        if file == "hypers2.txt":  # more networks in all tensors
            for other, own in zip(others, saved, strict=True):
                other.write_bytes(own * 2)
        with pytest.raises(tb.RunError, match=message):
            read_run(path)
        (path / file).write_bytes(kept)
        for other, own in zip(others, saved, strict=True):
            other.write_bytes(own)
    assert len(read_run(path).hypers) == 27


def test_directories_of_another_kind(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no directory"):
        tb.load_original(tmp_path / "nowhere")
    with pytest.raises(
        FileNotFoundError, match=r"has no architecture.txt: it is not a run of TensorBNN"
    ):
        tb.load_original(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(tb.RunError, match=r"is a run of this library: read it with tb.load"):
        tb.load_original(tmp_path)
    path = copied("gauss_partial", tmp_path / "old")
    change(path / "summary.txt", "20 2 4", "0 0 4")
    (path / "0.0.txt").write_bytes(b"")
    with pytest.raises(tb.RunError, match=r"has no networks: its chain was stopped in burn-in"):
        tb.load_original(path)
    (path / "summary.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"stopped before its first network was saved"):
        tb.load_original(path)


def spoil(content, rng):
    """Bytes changed, lost, or repeated."""
    first, last = sorted(rng.integers(0, len(content) + 1, 2))
    match rng.integers(4):
        case 0:
            return content[:first]
        case 1:
            return content[:first] + content[last:]
        case 2:
            return content[:last] + content[first:]
    changed = bytearray(content or b"0")
    changed[rng.integers(len(changed))] = rng.choice(list(b"0123456789 -.eE\n#\x00\xff"))
    return bytes(changed)


def test_damaged_files_are_read_or_have_a_clear_error(tmp_path):
    path = copied("gauss_partial", tmp_path / "old")
    whole, rng = read_run(path), np.random.default_rng(0)
    files = sorted(path.glob("*.txt"))
    told = []
    for _ in range(300):
        file = files[rng.integers(len(files))] if rng.integers(2) else path / "summary.txt"
        kept = file.read_bytes()
        file.write_bytes(spoil(kept, rng))
        try:
            found = read_run(path)
        except tb.RunError as error:
            told.append(str(error))
        else:
            counts = {len(each) for each in (*found.tensors, found.hypers)}
            assert len(counts) == 1
            assert 0 < counts.pop() <= 30
        file.write_bytes(kept)
    assert len(told) > 100
    assert all(str(path) in message for message in told)
    assert np.array_equal(read_run(path).hypers, whole.hypers)
