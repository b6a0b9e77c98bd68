"""A run with any damage is read as it was written, or not at all: hundreds of mutations."""

import itertools
import resource
import shutil
import sys
import time
import warnings

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.sampling.checkpoint import pack_checkpoint
from tensorbnn.sampling.restore import read_checkpoints, restore_run
from tensorbnn.storage.directory import DirectoryStore
from tests.sampling import small_runs

pytestmark = pytest.mark.slow

MEGABYTE = 2**20 if sys.platform == "darwin" else 2**10  # in the units of `ru_maxrss`


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "run"
    small_runs.draw(path, chains=2, burn_in=6, draws=5, thin=1, networks_per_file=2)
    return path


# Mutations of a file's content: each takes a generator of random numbers and the bytes.


def flip_a_bit(generator, content):
    place = generator.integers(len(content))
    return changed(content, place, bytes([content[place] ^ 1 << generator.integers(8)]))


def change_a_byte(generator, content):
    place = generator.integers(len(content))
    return changed(content, place, bytes([(content[place] + generator.integers(1, 256)) % 256]))


def change_a_character(generator, content):
    """Replace a character, most likely of text, by one that JSON knows, too."""
    place = generator.integers(min(len(content), 2000))
    return changed(content, place, generator.choice(list(b'0123456789-.eE[]{}",: \n\\tfn')))


def truncate(generator, content):
    return content[: generator.integers(len(content))]


def truncate_at_a_boundary(generator, content):
    """At the end of a line, of the head of a safetensors file, or of nearly everything."""
    head = 8 + int.from_bytes(content[:8], "little")
    lines = [place + 1 for place, byte in enumerate(content) if byte == ord("\n")]
    return content[: generator.choice([0, 1, 7, 8, 9, head, len(content) - 1, *lines[:-1]])]


def zero_a_block(generator, content):
    place, size = block(generator, content)
    return changed(content, place, bytes(size))


def duplicate_a_block(generator, content):
    place, size = block(generator, content)
    return content[: place + size] + content[place:]


def remove_a_block(generator, content):
    place, size = block(generator, content)
    return content[:place] + content[place + size :]


def move_a_block(generator, content):
    (place, size), (other, _) = block(generator, content), block(generator, content)
    return changed(content, place, content[other : other + size])[: len(content)]


def append(generator, content):
    return content + generator.bytes(generator.integers(1, 300))


def another_length_of_the_head(generator, content):
    """Change the first eight bytes of a safetensors file, also to enormous numbers."""
    return int(2 ** generator.uniform(0, 63)).to_bytes(8, "little") + content[8:]


def changed(content, place, new):
    new = bytes([new]) if isinstance(new, np.integer) else new
    return content[:place] + new + content[place + len(new) :]


def block(generator, content):
    """Where a block begins, and its size."""
    place = generator.integers(len(content))
    return place, min(int(2 ** generator.uniform(0, 11)), len(content) - place)


MUTATIONS = [
    flip_a_bit,
    change_a_byte,
    change_a_character,
    truncate,
    truncate_at_a_boundary,
    zero_a_block,
    duplicate_a_block,
    remove_a_block,
    move_a_block,
    append,
    another_length_of_the_head,
]


class Reading:
    """All that can be read of a run, by `read`; what is refused is in `refused`, by its name."""

    def __init__(self, path, *, resumes):
        self.read, self.refused = {}, {}
        self.try_("draws", lambda: small_runs.arrays(tb.load(path)))
        self.try_("store", lambda: DirectoryStore(path).manifest)
        if "store" in self.read:
            store = DirectoryStore(path)
            self.try_("reports", store.reports)
            self.try_("states", lambda: [store.read_state(each) for each in (0, 1)])
            self.try_("data", store.data)
        if resumes and not self.refused:
            self.try_("checkpoints", lambda: restore_checkpoints(path))

    def try_(self, name, read):
        try:
            self.read[name] = flat(read())
        except (tb.RunError, FileNotFoundError) as error:
            self.refused[name] = str(error)


def restore_checkpoints(path):
    """What `tb.resume` does before it samples."""
    store = DirectoryStore(path)
    return [pack_checkpoint(each) for each in read_checkpoints(restore_run(store), store, range(2))]


def flat(value):
    """Nested values as text and bytes, to be compared."""
    if isinstance(value, dict):
        return {name: flat(each) for name, each in value.items()}
    if isinstance(value, list):
        return [flat(each) for each in value]
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    return value


def check(path, file, whole, *, resumes):
    """What is read equals what was written; errors name the file."""
    began = time.monotonic()
    reading = Reading(path, resumes=resumes)
    for name, value in reading.read.items():
        assert value == whole.read[name], name
    for name, message in reading.refused.items():
        assert any(part in message for part in (file.name, str(path))), f"{name}: {message}"
    assert time.monotonic() - began < 20
    return bool(reading.refused)


def fuzz(original, folder, rounds):
    """Every mutation of every file, `rounds` times; how many were noticed, and how many not."""
    path = folder / "run"
    shutil.copytree(original, path)
    whole = Reading(path, resumes=True)
    assert not whole.refused
    files = sorted(file for file in path.rglob("*") if file.is_file())
    noticed = {True: 0, False: 0}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed, (file, mutate) in enumerate(itertools.product(files, MUTATIONS * rounds)):
        content = file.read_bytes()
        mutated = mutate(np.random.default_rng(seed), content)
        if mutated == content:
            continue
        file.write_bytes(mutated)
        try:
            resumes = file.name in ("state.safetensors", "run.json", "data.safetensors")
            noticed[check(path, file, whole, resumes=resumes)] += 1
        except BaseException as error:
            error.add_note(f"{mutate.__name__} of {file.relative_to(path)} with seed {seed}")
            raise
        finally:
            file.write_bytes(content)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 300 * MEGABYTE
    assert [each.name for each in folder.iterdir()] == ["run"]
    assert sorted(each for each in path.rglob("*") if each.is_file()) == files
    return noticed


def test_every_file_with_every_kind_of_damage(original, tmp_path):
    noticed = fuzz(original, tmp_path, rounds=6)
    assert noticed[True] > 650
    assert noticed[False] < 40  # spaces and line ends that mean nothing


@pytest.mark.soak
def test_every_file_with_every_kind_of_damage_for_long(original, tmp_path):
    noticed = fuzz(original, tmp_path, rounds=500)
    assert noticed[True] > 55_000
    assert noticed[False] < 2_000


@pytest.fixture
def copy(original, tmp_path):
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def test_files_that_are_exchanged(original, copy):
    """Every file by every other; data by data of another run are noticed by `tb.resume`."""
    whole = Reading(original, resumes=True)
    contents = small_runs.contents(original)
    for name, other in itertools.permutations(contents, 2):
        (copy / name).write_bytes(contents[other])
        assert check(copy, copy / name, whole, resumes=True), (name, other)
        (copy / name).write_bytes(contents[name])
    assert not Reading(copy, resumes=True).refused


def test_files_that_are_missing(original, copy):
    whole = Reading(original, resumes=True)
    for file in sorted(file for file in copy.rglob("*") if file.is_file()):
        content = file.read_bytes()
        file.unlink()
        if file.name == "data.safetensors":  # optional, and then needed by `resume`
            with pytest.raises(ValueError, match="does not keep its data: give them"):
                restore_checkpoints(copy)
        else:
            assert check(copy, file, whole, resumes=True), file.name
        file.write_bytes(content)


def test_damaged_files_are_skipped_when_asked(original, copy):
    """Damaged files are left out entirely; draws of the others stay aligned."""
    whole = small_runs.arrays(tb.load(original))
    files = sorted(copy.glob("chain-*/draws-*"))
    for seed, (file, mutate) in enumerate(itertools.product(files, MUTATIONS)):
        content, number = file.read_bytes(), int(file.stem.partition("-")[2])
        file.write_bytes(mutate(np.random.default_rng(seed), content))
        damaged = DirectoryStore(copy).damage()
        assert len(damaged) == (file.read_bytes() != content), mutate.__name__
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            kept = tb.load(copy, skip_damaged=True)
        assert all(str(file) in str(each.message) for each in said)
        assert len(said) == len(damaged)
        rows = [row for row in range(5) if not damaged or row // 2 != number]
        for name, values in small_runs.arrays(kept).items():
            assert values.tobytes() == whole[name][:, rows].tobytes()
        file.write_bytes(content)
