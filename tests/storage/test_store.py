"""Both stores return what was written; the directory is a valid run at every instant."""

import errno
import json
import os
import stat
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import tensorbnn as tb
from tensorbnn.errors import (
    DamagedStateError,
    LockedError,
    NotARunError,
    PathTakenError,
    WriteError,
)
from tensorbnn.storage import creation, directory
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import pack_arrays
from tensorbnn.storage.manifest import pack_manifest
from tensorbnn.storage.store import MemoryStore
from tests.raising import raises

MANIFEST = {
    "format": 2,
    "library": "0",
    "jax": "0",
    "blackjax": "0",
    "created": "2026-01-01T00:00:00+00:00",
    "status": "running",
    "network": {},
    "likelihood": {},
    "dtype": "float32",
    "engine": "jax",
    "instruction_set": None,
    "scaling": {},
    "data": None,
    "sampler": {},
    "chains": 2,
    "burn_in": 5,
    "draws": 10,
    "thin": 1,
    "networks_per_file": 4,
    "seed": 0,
    "sample_hyperparameters": True,
    "pooled": True,
    "until": None,
    "max_minutes": None,
    "max_gradients": None,
    "notes": {},
    "output_shape": [],
    "metrics": {},
    "report_every": 100,
}
DATA = {"x": np.arange(6.0).reshape(3, 2), "y": np.ones((3, 1))}


def state(transitions=0):
    return {"transitions": np.asarray(transitions)}


def create(path, *, overwrite=False, data=DATA, **fields):
    manifest = MANIFEST | fields
    states = [state()] * manifest["chains"]
    store = DirectoryStore.create(path, manifest, data, states, overwrite=overwrite)
    store.close()
    return store


def chunk(first, draws=4):
    return {
        "parameters/dense_0.weights": np.arange(first, first + draws)[:, None, None]
        * np.ones((1, 2)),
        "sample_stats/acceptance_rate": np.full(draws, 0.5, np.float32),
    }


@pytest.fixture(params=["memory", "directory"])
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore(dict(MANIFEST), DATA)
    return create(tmp_path / "run")


def test_chunks_are_read_as_they_were_written(store):
    store.write_chunk(1, 0, chunk(0))
    store.write_chunk(1, 1, chunk(4, draws=2))
    assert store.chunk_sizes(1) == {0: 4, 1: 2}
    assert store.chunk_sizes(0) == {}
    assert store.chunk_sizes(1, left_out={0}) == {1: 2}
    assert store.damage() == {}
    read = store.read_chunk(1, 1, "parameters/")
    assert list(read) == ["dense_0.weights"]
    np.testing.assert_array_equal(
        read["dense_0.weights"], chunk(4, 2)["parameters/dense_0.weights"]
    )
    assert store.read_chunk(1, 0, "sample_stats/")["acceptance_rate"].dtype == np.float32


def test_a_chunk_can_be_replaced(store):
    store.write_chunk(0, 0, chunk(0, draws=2))
    assert store.chunk_sizes(0) == {0: 2}
    store.write_chunk(0, 0, chunk(0, draws=3))
    assert store.chunk_sizes(0) == {0: 3}
    np.testing.assert_array_equal(
        store.read_chunk(0, 0, "parameters/")["dense_0.weights"],
        chunk(0, 3)["parameters/dense_0.weights"],
    )


def test_data_and_state_are_read_as_they_were_written(store):
    np.testing.assert_array_equal(store.data()["x"], DATA["x"])
    store.write_state(0, {"position": np.arange(3.0), "iteration": np.asarray(7, np.int32)})
    state = store.read_state(0)
    np.testing.assert_array_equal(state["position"], np.arange(3.0))
    assert state["iteration"].dtype == np.int32
    assert state["iteration"] == 7
    store.update(status="complete")
    assert store.manifest["status"] == "complete"
    store.refresh()
    assert store.manifest["status"] == "complete"
    store.close()


@pytest.fixture
def run(tmp_path):
    return create(tmp_path / "run")


def file_of(run, chain, index):
    return run.path / f"chain-{chain:02d}" / f"draws-{index:05d}.safetensors"


def fill(run, chunks=3):
    for chain in range(2):
        for index in range(chunks):
            run.write_chunk(chain, index, chunk(4 * index + 100 * chain))
        run.write_state(chain, state(5 + 4 * chunks))


def test_a_write_that_fails_leaves_the_old_file_and_no_other(run, monkeypatch):
    run.write_chunk(0, 0, chunk(0))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    reason = "[Errno 28] No space left on device"
    for index, first in ((1, 4), (0, 9)):
        file = run.path.absolute() / "chain-00" / f"draws-{index:05d}.safetensors"
        with raises(WriteError, file=file, reason=reason, path=run.path):
            run.write_chunk(0, index, chunk(first))
    monkeypatch.undo()
    names = {file.name for file in (run.path / "chain-00").iterdir()}
    assert names == {"draws-00000.safetensors", "state.safetensors"}
    np.testing.assert_array_equal(
        run.read_chunk(0, 0, "parameters/")["dense_0.weights"],
        chunk(0)["parameters/dense_0.weights"],
    )


def test_leftover_temporary_files_are_not_read_and_the_next_writer_removes_them(run):
    run.write_chunk(0, 0, chunk(0))
    leftovers = [
        run.path / "chain-00" / ".draws-00001.safetensors.abc.tmp",
        run.path / ".run.json.0123.tmp",
    ]
    for file in leftovers:
        file.write_bytes(b"half a file")
    assert DirectoryStore(run.path).chunk_sizes(0) == {0: 4}
    assert all(file.exists() for file in leftovers)
    DirectoryStore.open_to_write(run.path).close()
    assert not any(file.exists() for file in leftovers)
    assert DirectoryStore(run.path).chunk_sizes(0) == {0: 4}


def test_one_writer_any_number_of_readers(run):
    first = DirectoryStore.open_to_write(run.path)
    with pytest.raises(LockedError):
        DirectoryStore.open_to_write(run.path)
    with pytest.raises(LockedError):
        create(run.path, overwrite=True)
    first.write_chunk(0, 0, chunk(0))
    assert DirectoryStore(run.path).chunk_sizes(0) == {0: 4}
    first.close()
    DirectoryStore.open_to_write(run.path).close()


def flipped(content, name):
    """`content` with one bit of the arrays changed."""
    return content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"", "is damaged"),
        (lambda content: b"not safetensors at all", "is damaged"),
        (lambda content: content[:-5], "is damaged"),
        (lambda content: content.replace(b"index", b"indxe"), "checksum of its metadata"),
        (
            lambda content: content.replace(b'"parameters/', b'"parameterz/', 1),
            "is damaged",
        ),
        (lambda content: flipped(content, ""), "the checksum of .* does not match"),
        (lambda content: safetensors.numpy.save({"weight": np.ones(3)}), "not written by this"),
        (
            lambda content: pack_arrays({}, "draws", {"format": 7}),
            "has format 7, but this version of the library reads format 2: use a newer version",
        ),
        (
            lambda content: pack_arrays({}, "state", {}),
            "is not the file that belongs here: its kind is 'state'",
        ),
        (None, "is missing"),
    ],
)
def test_a_damaged_chunk_is_named_and_the_others_stay_readable(run, change, message):
    fill(run)
    file = file_of(run, 1, 1)
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    fresh = DirectoryStore(run.path)
    usable = (
        r"still readable are draws 0 to 3, 8 to 11 of chain 1 and all draws of 1 other chain: "
        r"tb.load\(.*, skip_damaged=True\)"
    )
    with pytest.raises(
        tb.RunError, match=rf"chain-01.draws-00001.safetensors .*{message}.*{usable}"
    ):
        fresh.chunk_sizes(1) and fresh.read_chunk(1, 1, "")
    assert list(fresh.damage()) == [(1, 1)]
    assert fresh.chunk_sizes(0) == {0: 4, 1: 4, 2: 4}
    assert fresh.chunk_sizes(1, left_out=[1]) == {0: 4, 2: 4}
    assert fresh.read_chunk(1, 2, "parameters/")["dense_0.weights"][0, 0, 0] == 108


def test_a_file_in_another_place_is_not_mistaken_for_the_right_one(run, tmp_path):
    fill(run)
    file_of(run, 0, 0).write_bytes(file_of(run, 1, 0).read_bytes())
    with pytest.raises(
        tb.RunError, match="is not the file that belongs here: its chain is 1, not 0"
    ):
        DirectoryStore(run.path).chunk_sizes(0)
    file_of(run, 0, 0).write_bytes(file_of(run, 0, 1).read_bytes())
    with pytest.raises(
        tb.RunError, match="is not the file that belongs here: its index is 1, not 0"
    ):
        DirectoryStore(run.path).chunk_sizes(0)
    other = create(tmp_path / "other", seed=1)
    fill(other)
    file_of(run, 0, 0).write_bytes(file_of(other, 0, 0).read_bytes())
    with pytest.raises(tb.RunError, match="is not the file that belongs here: its run is"):
        DirectoryStore(run.path).read_chunk(0, 0, "")


def test_an_older_shorter_file_is_noticed(run):
    run.write_chunk(0, 0, chunk(0, draws=2))
    old = file_of(run, 0, 0).read_bytes()
    fill(run)
    assert DirectoryStore(run.path).chunk_sizes(0) == {0: 4, 1: 4, 2: 4}
    file_of(run, 0, 2).unlink()
    with pytest.raises(tb.RunError, match=r"draws-00002.safetensors is missing; still readable"):
        DirectoryStore(run.path).chunk_sizes(0)
    file_of(run, 0, 0).write_bytes(old)
    with pytest.raises(tb.RunError, match="it has 2 draws, but 4 were written"):
        DirectoryStore(run.path).chunk_sizes(0)


def test_draws_are_read_without_the_state(run):
    fill(run)
    (run.path / "chain-00" / "state.safetensors").write_bytes(b"")
    fresh = DirectoryStore(run.path)
    assert fresh.chunk_sizes(0) == {0: 4, 1: 4, 2: 4}
    with raises(DamagedStateError, chain=0):
        fresh.read_state(0)
    file_of(run, 0, 1).unlink()
    with pytest.raises(tb.RunError, match=r"draws-00001.safetensors is missing"):
        DirectoryStore(run.path).chunk_sizes(0)


def test_reports_that_are_missing_are_noticed(run):
    """Those that the state of a chain counts; the last, between two others, while the run ends."""
    for transition in (100, 200, 215):
        run.append_report({"chain": 1, "transition": transition})
    run.update(draws=210)
    run.write_state(1, state(215) | {"reported": np.asarray(215)})
    lines = (run.path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    assert len(DirectoryStore(run.path).reports()) == 3
    for number, transition in enumerate((100, 200, 215)):
        left = lines[:number] + lines[number + 1 :]
        (run.path / "metrics.jsonl").write_bytes(b"".join(left))
        message = f"the report of chain 1 at transition {transition} is missing"
        rest = "`skip_damaged=True` reads the 2 others"
        with pytest.raises(tb.RunError, match=f"metrics.jsonl is damaged: {message}; {rest}"):
            DirectoryStore(run.path).reports()
        assert len(DirectoryStore(run.path).reports(skip_damaged=True)) == 2
    run.update(draws=211)
    assert len(DirectoryStore(run.path).reports()) == 2
    (run.path / "metrics.jsonl").unlink()
    with pytest.raises(tb.RunError, match=r"metrics.jsonl is damaged: the report of chain 1"):
        DirectoryStore(run.path).reports()


def test_no_state_counts_a_report_that_is_still_being_synced(run, monkeypatch):
    store = DirectoryStore.open_to_write(run.path)
    began, may_end = threading.Event(), threading.Event()

    def sync_file(file):
        began.set()
        assert may_end.wait(timeout=60)

    monkeypatch.setattr(directory, "sync_file", sync_file)
    for chain in (0, 1):
        store.append_report({"chain": chain, "transition": 100})
    saved = [store.transitions(chain) for chain in (0, 1)]
    writers = [
        threading.Thread(target=store.write_state, args=(chain, state(saved[chain] + 100)))
        for chain in (0, 1)
    ]
    writers[0].start()
    assert began.wait(timeout=60)
    writers[1].start()
    writers[1].join(timeout=0.2)
    meanwhile = [store.transitions(chain) for chain in (0, 1)]
    may_end.set()
    for writer in writers:
        writer.join()
    assert meanwhile == saved
    assert [store.transitions(chain) for chain in (0, 1)] == [each + 100 for each in saved]
    store.close()


def test_a_file_that_may_not_be_read_is_not_called_missing(run, monkeypatch):
    run.write_chunk(0, 0, chunk(0))

    def missing(file, framework):
        raise FileNotFoundError(f"No such file or directory: {file}")

    def refused(file, flags):
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr("tensorbnn.storage.files.safe_open", missing)
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(tb.RunError, match=r"draws-00000.safetensors can't be read: .*Permission"):
        run.read_chunk(0, 0, "")


def test_a_chain_that_is_missing_is_named(run):
    fill(run)
    for file in (run.path / "chain-01").iterdir():
        file.unlink()
    (run.path / "chain-01").rmdir()
    with pytest.raises(tb.RunError, match="chain-01 is missing"):
        DirectoryStore(run.path).chunk_sizes(1)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_draws_that_are_not_finite_are_neither_written_nor_read(run, value):
    bad = chunk(0)
    bad["parameters/dense_0.weights"][2] = value
    message = r"NaN or infinite values of parameters/dense_0.weights, first in its draw 2 of 4"
    with pytest.raises(tb.RunError, match=f"would hold {message}; the draws before it can be read"):
        run.write_chunk(0, 0, bad)
    assert not file_of(run, 0, 0).exists()
    run.write_chunk(
        0, 0, chunk(0) | {"sample_stats/acceptance_rate": np.full(4, value, np.float32)}
    )
    run.write_chunk(0, 1, chunk(0))
    facts = {"chain": 0, "run": run._identity, "index": 1, "draws": 4}
    file_of(run, 0, 1).write_bytes(pack_arrays(bad, "draws", facts))
    with pytest.raises(tb.RunError, match=f"draws-00001.safetensors holds {message}; still"):
        run.read_chunk(0, 1, "parameters/")
    assert len(run.read_chunk(0, 1, "sample_stats/")["acceptance_rate"]) == 4


def test_nothing_outside_the_run_is_read_or_written(run, tmp_path):
    fill(run)
    outside = tmp_path / "secret.safetensors"
    outside.write_bytes(file_of(run, 0, 1).read_bytes())
    file_of(run, 0, 1).unlink()
    file_of(run, 0, 1).symlink_to(outside)
    with pytest.raises(tb.RunError, match=r"draws-00001.safetensors is a link out of the run"):
        DirectoryStore(run.path).chunk_sizes(0)
    away = tmp_path / "away"
    (run.path / "chain-01").rename(away)
    (run.path / "chain-01").symlink_to(away)
    with pytest.raises(tb.RunError, match="chain-01 is a link that leads out of the run"):
        DirectoryStore(run.path).chunk_sizes(1)
    with pytest.raises(tb.RunError, match="chain-01 is a link that leads out of the run"):
        run.write_chunk(1, 5, chunk(0))
    for name in ("data.safetensors", "run.json"):
        (tmp_path / name).write_bytes((run.path / name).read_bytes())
        (run.path / name).unlink()
        (run.path / name).symlink_to(tmp_path / name)
        with pytest.raises(tb.RunError, match=f"{name} is a link out of the run"):
            run.data() if name == "data.safetensors" else DirectoryStore(run.path)


def test_nothing_is_written_through_a_link(run, tmp_path):
    (tmp_path / "mine").write_text("precious")
    for name in ("run.lock", "metrics.jsonl"):
        (run.path / name).symlink_to(tmp_path / "mine")
    with pytest.raises(tb.RunError, match=r"run.lock can't be written"):
        DirectoryStore.open_to_write(run.path)
    with pytest.raises(WriteError):
        run.append_report({"chain": 0, "transition": 1})
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_run_that_is_reached_by_a_link_is_a_run(run, tmp_path):
    fill(run)
    (tmp_path / "link").symlink_to(run.path)
    assert DirectoryStore(tmp_path / "link").chunk_sizes(0) == {0: 4, 1: 4, 2: 4}


def test_a_pipe_is_refused_at_once(run):
    fill(run)
    file_of(run, 0, 1).unlink()
    os.mkfifo(file_of(run, 0, 1))
    with pytest.raises(tb.RunError, match=r"draws-00001.safetensors is not a file"):
        DirectoryStore(run.path).read_chunk(0, 1, "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "run.json is damaged"),
        ("[]", "run.json was not written by this library"),
        ('{"name": "other"}', "run.json was not written by this library"),
        ('{"format": 2, "chains": 2}', "run.json was not written by this library"),
        ("[" * 100_000, "run.json is damaged"),
        (json.dumps(MANIFEST | {"format": 99, "sha256": ""}), "has format 99, .* a newer version"),
        (json.dumps(MANIFEST | {"format": 1, "sha256": ""}), "has format 1, .* an older version"),
        (json.dumps(MANIFEST | {"sha256": ""}), "its checksum does not match; the draws, in"),
        (
            json.dumps(MANIFEST | {"seed": float("nan"), "sha256": ""}),
            "its checksum does not match",
        ),
        (json.dumps(MANIFEST | {"seed": float("nan"), "sha256": None}), "not written by this"),
    ],
    ids=lambda text: text[:20],
)
def test_a_manifest_that_is_not_ours_is_refused(run, content, message):
    (run.path / "run.json").write_text(content)
    with pytest.raises(tb.RunError, match=message):
        DirectoryStore(run.path)


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("chains", 0, "a whole number from 1 to [0-9]+, got 0"),
        ("chains", True, "a whole number from 1 to [0-9]+, got True"),
        ("chains", "2", "a whole number from 1 to [0-9]+, got '2'"),
        ("networks_per_file", -1, "a whole number from 1 to [0-9]+, got -1"),
        ("thin", 1.5, "a whole number from 1 to [0-9]+, got 1.5"),
        ("dtype", "int8", r"one of \['float32', 'float64'\], got 'int8'"),
        ("status", "done", "one of .*'interrupted'.*, got 'done'"),
        ("network", [], r"a description, got \[\]"),
        ("data", {"sha256": "../../etc"}, "null, or shapes and a SHA-256"),
        ("metrics", ["squared_error"], "descriptions by name"),
        ("sample_hyperparameters", 1, "true or false, got 1"),
    ],
)
def test_a_bad_field_is_named(run, field, value, wanted):
    (run.path / "run.json").write_bytes(pack_manifest(MANIFEST | {field: value}))
    with pytest.raises(tb.RunError, match=rf"run.json is invalid: `{field}` must be {wanted}"):
        DirectoryStore(run.path)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(NotARunError):
        DirectoryStore(tmp_path)


def test_an_existing_run_is_replaced_only_when_asked(run):
    run.write_chunk(0, 0, chunk(0))
    with raises(PathTakenError, path=run.path, holds="run"):
        create(run.path)
    assert DirectoryStore(run.path).chunk_sizes(0) == {0: 4}
    new = create(run.path, overwrite=True, data=None)
    assert new.chunk_sizes(0) == {}
    assert new.data() is None
    assert [file.name for file in run.path.parent.iterdir()] == ["run"]


@pytest.mark.parametrize("number", range(6))
def test_a_run_that_can_not_be_made_leaves_the_old_one(run, number, monkeypatch):
    run.write_chunk(0, 0, chunk(0))
    calls = []

    def full(descriptor, content):
        calls.append(1)
        if len(calls) > number:
            raise OSError(28, "No space left on device")
        os.write(descriptor, content)

    for module in ("files", "lock"):
        monkeypatch.setattr(f"tensorbnn.storage.{module}.write_bytes", full)
    with pytest.raises(tb.RunError, match="No space left"):
        create(run.path, overwrite=True)
    monkeypatch.undo()
    assert DirectoryStore(run.path).chunk_sizes(0) == {0: 4}
    assert [file.name for file in run.path.parent.iterdir()] == ["run"]


def test_a_folder_that_was_being_made_when_the_process_was_killed_may_be_used(run):
    (run.path / "run.json").unlink()
    with raises(PathTakenError, holds="something else"):
        create(run.path)
    (run.path / "run.lock").write_text("of a process that was killed")
    create(run.path, data=None)
    assert DirectoryStore(run.path).data() is None
    assert not (run.path / "run.lock").exists()


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_directory_of_another_program_is_never_touched(tmp_path, overwrite):
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "run.lock").write_text("")
    with raises(PathTakenError, holds="something else"):
        create(tmp_path, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_an_empty_folder_may_be_used(tmp_path):
    create(tmp_path)
    assert (tmp_path / "run.json").exists()


def test_a_path_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("text")
    with raises(PathTakenError, holds="something else"):
        creation.check_free(file, overwrite=True)
    with pytest.raises(tb.RunError, match="can't be created"):
        create(file / "run")


def test_a_folder_with_the_run_json_of_another_program_is_never_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for content in ('{"format": "pdf"}', "no JSON"):
        (tmp_path / "run.json").write_text(content)
        with raises(PathTakenError, holds="something else"):
            create(tmp_path, overwrite=True)
    assert {file.name for file in tmp_path.iterdir()} == {"thesis.tex", "run.json"}


def test_a_run_whose_manifest_is_damaged_may_be_replaced(run):
    (run.path / "run.json").write_text("{")
    with raises(PathTakenError, holds="run"):
        create(run.path)
    create(run.path, overwrite=True, data=None)
    assert DirectoryStore(run.path).data() is None


def test_draws_without_a_manifest_are_not_mistaken_for_an_unfinished_run(run):
    run.write_chunk(0, 0, chunk(0))
    (run.path / "run.json").unlink()
    (run.path / "run.lock").write_text("of a process that was killed")
    for overwrite in (False, True):
        with raises(PathTakenError, holds="something else"):
            create(run.path, overwrite=overwrite)
    assert (run.path / "chain-00/draws-00000.safetensors").exists()


def test_the_current_directory_is_not_replaced(run, tmp_path, monkeypatch):
    run.write_chunk(0, 0, chunk(0))
    for inside, path in ((run.path, "."), (run.path / "chain-00", "..")):
        monkeypatch.chdir(inside)
        with raises(PathTakenError, holds="current directory"):
            create(path, overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
    assert DirectoryStore(run.path).chunk_sizes(0) == {0: 4}


def test_what_other_runs_have_moved_away_is_left_there(run, tmp_path):
    mine, others = (tmp_path / f".{name}.{'0f' * 16}.old" for name in ("run", "run.b"))
    mine.mkdir()
    others.mkdir()
    create(run.path, overwrite=True)
    assert not mine.exists()
    assert others.exists()


def test_ctrl_c_while_a_run_is_moved_away_puts_it_back(run, tmp_path, monkeypatch):
    run.write_chunk(0, 0, chunk(0))
    rename = os.rename

    def renamed(*names):
        monkeypatch.undo()
        rename(*names)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", renamed)
    with pytest.raises(KeyboardInterrupt):
        create(run.path, overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
    store = DirectoryStore.open_to_write(run.path)
    assert store.chunk_sizes(0) == {0: 4}
    store.close()


def test_ctrl_c_again_and_again_while_a_run_is_made_puts_the_old_one_back(
    run, tmp_path, monkeypatch
):
    run.write_chunk(0, 0, chunk(0))

    def interrupted(*_, **__):
        monkeypatch.undo()
        raise KeyboardInterrupt

    def half(path, *_):
        (path / "chain-00").mkdir()
        monkeypatch.setattr("shutil.rmtree", interrupted)
        raise KeyboardInterrupt

    monkeypatch.setattr(creation, "_fill", half)
    with pytest.raises(KeyboardInterrupt):
        create(run.path, overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
    store = DirectoryStore.open_to_write(run.path)
    assert store.chunk_sizes(0) == {0: 4}
    store.close()
    assert not (run.path / "run.lock").exists()


@pytest.mark.parametrize("locks", [True, False])
def test_ctrl_c_twice_while_a_run_is_made_leaves_what_the_next_one_replaces(
    tmp_path, monkeypatch, locks
):
    if not locks:
        monkeypatch.setattr("tensorbnn.storage.lock._lock", lambda _: False)

    def interrupted(*_, **__):
        again.undo()
        raise KeyboardInterrupt

    def half(path, *_):
        (path / "chain-00").mkdir()
        (path / "data.safetensors").write_bytes(b"half")
        again.setattr("shutil.rmtree", interrupted)
        again.setattr(Path, "unlink", interrupted)
        raise KeyboardInterrupt

    with monkeypatch.context() as again:
        again.setattr(creation, "_fill", half)
        with pytest.raises(KeyboardInterrupt):
            create(tmp_path / "run")
    assert {"chain-00", "data.safetensors"} & set(os.listdir(tmp_path / "run"))
    create(tmp_path / "run")
    assert DirectoryStore(tmp_path / "run").data().keys() == DATA.keys()
    assert not (tmp_path / "run/run.lock").exists()


def test_ctrl_c_once_while_a_run_is_made_leaves_an_empty_folder(tmp_path, monkeypatch):
    def half(path, *_):
        (path / "chain-00").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(creation, "_fill", half)
    with pytest.raises(KeyboardInterrupt):
        create(tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())


def test_ctrl_c_while_the_old_run_is_removed_leaves_the_new_one_free(run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        create(run.path, overwrite=True, data=None)
    store = DirectoryStore.open_to_write(run.path)
    assert store.data() is None
    store.close()


def test_a_relative_path_stays_where_it_was(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reader, writer = DirectoryStore("run"), DirectoryStore.open_to_write("run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    writer.write_chunk(0, 0, chunk(0))
    writer.write_state(0, state(9))
    writer.append_report({"chain": 0, "transition": 1})
    writer.update(status="interrupted")
    writer.close()
    assert reader.chunk_sizes(0) == {0: 4}
    assert reader.read_chunk(0, 0, "sample_stats/")["acceptance_rate"].shape == (4,)
    assert reader.data().keys() == DATA.keys()
    reader.refresh()
    assert reader.manifest["status"] == "interrupted"
    assert not (run.path / "run.lock").exists()
    assert not list(Path().iterdir())


def test_file_systems_that_can_not_sync_a_directory_can_hold_runs(tmp_path, monkeypatch):
    sync = os.fsync
    error = errno.EINVAL

    def picky(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(error, os.strerror(error))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", picky)
    create(tmp_path / "run").write_chunk(0, 0, chunk(0))
    assert DirectoryStore(tmp_path / "run").chunk_sizes(0) == {0: 4}
    error = errno.EIO
    with pytest.raises(tb.RunError, match="Input/output error"):
        create(tmp_path / "other")


def test_a_complete_run_has_all_its_draws(run):
    """Even without the states that count them."""
    fill(run)
    run.update(status="complete", draws=12)
    assert DirectoryStore(run.path).chunk_sizes(0) == {0: 4, 1: 4, 2: 4}
    (run.path / "chain-00" / "state.safetensors").write_bytes(b"")
    file_of(run, 0, 2).unlink()
    with pytest.raises(tb.RunError, match=r"chain-00.draws-00002.safetensors is missing; still"):
        DirectoryStore(run.path).chunk_sizes(0)
    fresh = DirectoryStore(run.path)
    assert list(fresh.damage()) == [(0, 2)]
    run.update(status="interrupted")  # then nothing shows that there were more
    assert DirectoryStore(run.path).chunk_sizes(0) == {0: 4, 1: 4}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("notes.txt", "notes.txt"),
        (".hidden", ".hidden"),
        ("plots/a.png", "plots"),
        ("chain-00/notes.txt", "chain-00/notes.txt"),
        ("chain-00/a/b", "chain-00/a"),
    ],
)
def test_files_that_the_library_did_not_write_are_never_removed(run, name, shown):
    run.write_chunk(0, 0, chunk(0))
    (run.path / name).parent.mkdir(parents=True, exist_ok=True)
    (run.path / name).write_text("precious")
    with raises(PathTakenError, path=run.path, holds="other files", names=(shown,)):
        create(run.path, overwrite=True)
    assert (run.path / name).read_text() == "precious"
    assert DirectoryStore(run.path).chunk_sizes(0) == {0: 4}


def test_what_a_run_and_its_report_leave_may_be_replaced(run):
    run.write_chunk(0, 0, chunk(0))
    run.append_report({"chain": 0, "transition": 1})
    for name in ("architecture.txt", "report.html", "stop", ".run.json.0123.tmp"):
        (run.path / name).write_text("")
    (run.path / "chain-00/burn-in.safetensors").write_bytes(b"")
    create(run.path, overwrite=True, data=None)
    assert DirectoryStore(run.path).chunk_sizes(0) == {}


def test_files_beside_an_unfinished_run_are_not_removed(run):
    (run.path / "run.json").unlink()
    (run.path / "run.lock").write_text("of a process that was killed")
    (run.path / "chain-01/notes.txt").write_text("precious")
    for overwrite in (False, True):
        with raises(PathTakenError, holds="something else"):
            create(run.path, overwrite=overwrite)
    assert (run.path / "chain-01/notes.txt").exists()


def test_reports_that_two_processes_append_at_once_are_complete_lines(run, monkeypatch):
    write = os.write

    def slowly(descriptor, content):
        for part in (content[:10], content[10:]):
            write(descriptor, part)
            time.sleep(0.02)
        return len(content)

    monkeypatch.setattr(os, "write", slowly)
    writers = [DirectoryStore(run.path) for _ in range(2)]
    threads = [
        threading.Thread(
            target=lambda store=store, chain=chain: [
                store.append_report({"chain": chain, "transition": 100 * n}) for n in range(1, 6)
            ]
        )
        for chain, store in enumerate(writers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (run.path / "metrics.jsonl").read_text().split("\n")
    assert lines.pop() == ""
    assert len(lines) == 10
    assert all(lines)
    assert len(run.reports()) == 10
