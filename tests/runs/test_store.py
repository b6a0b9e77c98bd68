"""Both stores keep what they are given; the directory is whole at every instant."""

import json
import os

import numpy as np
import pytest
import safetensors.numpy

import tensorbnn as tb
from tensorbnn.runs import store as store_module
from tensorbnn.runs.store import DirectoryStore, MemoryStore

MANIFEST = {"format": 1, "chains": 2, "status": "running"}
DATA = {"x": np.arange(6.0).reshape(3, 2), "y": np.ones((3, 1))}


def chunk(first, draws=4):
    return {
        "parameters/dense_0.weights": np.arange(first, first + draws)[:, None, None]
        * np.ones((1, 2)),
        "info/acceptance": np.full(draws, 0.5, np.float32),
    }


@pytest.fixture(params=["memory", "directory"])
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore(dict(MANIFEST), DATA)
    return DirectoryStore.create(tmp_path / "run", dict(MANIFEST), DATA, overwrite=False)


def test_chunks_come_back_as_they_were_written(store):
    store.write_chunk(1, 0, chunk(0))
    store.write_chunk(1, 1, chunk(4, draws=2))
    assert store.chunk_sizes(1) == [4, 2]
    assert store.chunk_sizes(0) == []
    read = store.read_chunk(1, 1, "parameters/")
    assert list(read) == ["dense_0.weights"]
    np.testing.assert_array_equal(
        read["dense_0.weights"], chunk(4, 2)["parameters/dense_0.weights"]
    )
    assert store.read_chunk(1, 0, "info/")["acceptance"].dtype == np.float32


def test_a_chunk_can_be_replaced(store):
    store.write_chunk(0, 0, chunk(0, draws=2))
    assert store.chunk_sizes(0) == [2]
    store.write_chunk(0, 0, chunk(0, draws=3))
    assert store.chunk_sizes(0) == [3]
    np.testing.assert_array_equal(
        store.read_chunk(0, 0, "parameters/")["dense_0.weights"],
        chunk(0, 3)["parameters/dense_0.weights"],
    )


def test_data_and_state_come_back(store):
    np.testing.assert_array_equal(store.data()["x"], DATA["x"])
    store.write_state(0, {"position": np.arange(3.0), "iteration": np.asarray(7, np.int32)})
    state = store.read_state(0)
    np.testing.assert_array_equal(state["position"], np.arange(3.0))
    assert state["iteration"].dtype == np.int32
    assert state["iteration"] == 7
    store.finish("complete")
    assert store.manifest["status"] == "complete"


@pytest.fixture
def run(tmp_path):
    return DirectoryStore.create(tmp_path / "run", dict(MANIFEST), DATA, overwrite=False)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(run, monkeypatch):
    run.write_chunk(0, 0, chunk(0))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(tb.RunError, match=r"draws-00001.*No space left.*before it are whole"):
        run.write_chunk(0, 1, chunk(4))
    with pytest.raises(tb.RunError, match=r"draws-00000.*No space left"):
        run.write_chunk(0, 0, chunk(9))
    monkeypatch.undo()
    assert [file.name for file in (run.path / "chain-00").iterdir()] == ["draws-00000.safetensors"]
    np.testing.assert_array_equal(
        run.read_chunk(0, 0, "parameters/")["dense_0.weights"],
        chunk(0)["parameters/dense_0.weights"],
    )


def test_leftover_temporary_files_are_not_read(run):
    run.write_chunk(0, 0, chunk(0))
    (run.path / "chain-00" / ".draws-00001.safetensors.abc.tmp").write_bytes(b"half a file")
    assert DirectoryStore(run.path).chunk_sizes(0) == [4]


@pytest.mark.parametrize("content", [b"", b"not safetensors at all", None], ids=str)
def test_a_damaged_chunk_is_named(run, content):
    run.write_chunk(0, 0, chunk(0))
    run.write_chunk(1, 0, chunk(0))
    file = run.path / "chain-00" / "draws-00000.safetensors"
    file.write_bytes(file.read_bytes()[:-5] if content is None else content)
    fresh = DirectoryStore(run.path)
    with pytest.raises(tb.RunError, match=r"chain-00.draws-00000.safetensors is damaged"):
        fresh.chunk_sizes(0)
    with pytest.raises(tb.RunError, match=r"chain-00.draws-00000.safetensors is damaged"):
        fresh.read_chunk(0, 0, "parameters/")
    assert fresh.chunk_sizes(1) == [4]


def test_another_programs_file_is_not_taken_for_a_chunk(run):
    file = run.path / "chain-00" / "draws-00000.safetensors"
    file.write_bytes(safetensors.numpy.save({"weight": np.ones(3)}))
    with pytest.raises(tb.RunError, match="not a file of this library"):
        run.chunk_sizes(0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "run.json is damaged"),
        ("[]", "run.json was not written by this library"),
        ('{"name": "other"}', "run.json was not written by this library"),
        (json.dumps(MANIFEST | {"format": 99}), "has format 99, .* reads up to 1"),
    ],
)
def test_a_manifest_that_is_not_ours_is_refused(run, content, message):
    (run.path / "run.json").write_text(content)
    with pytest.raises(tb.RunError, match=message):
        DirectoryStore(run.path)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not a run: it has no run.json"):
        DirectoryStore(tmp_path)


def test_an_existing_run_is_replaced_only_when_asked(run):
    run.write_chunk(0, 0, chunk(0))
    with pytest.raises(FileExistsError, match=r"already holds a run.*tb.load.*overwrite=True"):
        DirectoryStore.create(run.path, dict(MANIFEST), DATA, overwrite=False)
    assert DirectoryStore(run.path).chunk_sizes(0) == [4]
    new = DirectoryStore.create(run.path, dict(MANIFEST), None, overwrite=True)
    assert new.chunk_sizes(0) == []
    assert new.data() is None


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_folder_of_something_else_is_never_touched(tmp_path, overwrite):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match="is not a run of this library"):
        DirectoryStore.create(tmp_path, dict(MANIFEST), DATA, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_an_empty_folder_may_be_used(tmp_path):
    DirectoryStore.create(tmp_path, dict(MANIFEST), DATA, overwrite=False)
    assert (tmp_path / "run.json").exists()


def test_a_path_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(FileExistsError, match="is not a run of this library"):
        store_module.check_free(file, overwrite=True)
    with pytest.raises(tb.RunError, match="can't be made"):
        DirectoryStore.create(file / "run", dict(MANIFEST), DATA, overwrite=False)
