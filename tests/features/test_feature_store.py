"""States on disk are the target's own, whatever interrupted their writing."""

from __future__ import annotations

import errno
import json
import threading
from hashlib import file_digest
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from safetensors.torch import save
from transformers import AutoModelForCausalLM

from labsim.features import store
from labsim.features.source import Online
from labsim.features.store import FeatureSettings, FeatureStore, fingerprint, grouped, kept, shares
from labsim.models.files import digest
from labsim.models.load import Target, load_target
from labsim.models.paths import data_directory

LAYERS = (2, 4, 5)
SETTINGS = FeatureSettings("nano", "w", LAYERS, "fp32")
DOCUMENTS = [
    torch.randint(300, 900, (length,), generator=torch.Generator().manual_seed(length)).tolist()
    for length in (5, 17, 9, 30, 3)
]


@pytest.fixture(scope="module")
def nano() -> Target:
    return load_target("nano", device="cpu")


@pytest.fixture(scope="module")
def online(nano: Target) -> Online:
    return Online(nano.model, LAYERS)


def test_online_states_are_transformers_hidden_states(online: Online) -> None:
    theirs = AutoModelForCausalLM.from_pretrained(data_directory() / "nano", dtype=torch.float32).eval()
    for document, states in zip(DOCUMENTS, online.read(DOCUMENTS), strict=True):
        with torch.no_grad():
            hidden = theirs(torch.tensor([document]), output_hidden_states=True).hidden_states
        torch.testing.assert_close(
            states.features_TF, torch.cat([hidden[i][0] for i in LAYERS], -1), atol=2e-4, rtol=1e-4
        )
        torch.testing.assert_close(states.last_TE, hidden[-1][0], atol=2e-4, rtol=1e-4)


def test_stored_states_are_the_online_ones(online: Online, tmp_path: Path) -> None:
    FeatureStore(tmp_path, SETTINGS).fill(online, DOCUMENTS, tokens_per_forward=40)
    reopened = FeatureStore(tmp_path, SETTINGS)
    for stored, live in zip(reopened.read(DOCUMENTS), online.read(DOCUMENTS), strict=True):
        torch.testing.assert_close(stored.features_TF, live.features_TF, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(stored.last_TE, live.last_TE, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("own", "needed"), [([0, 1, 4, 8], [3]), ([], [2]), ([7], []), ([], [])])
def test_some_positions_of_a_document(online: Online, tmp_path: Path, own: list[int], needed: list[int]) -> None:
    """Also none: of a short document most ranks have no part."""
    kept_states = FeatureStore(tmp_path, SETTINGS)
    kept_states.fill(online, DOCUMENTS)
    own_P, needed_P = torch.tensor(own, dtype=torch.long), torch.tensor(needed, dtype=torch.long)
    for document in (DOCUMENTS[2], DOCUMENTS[3]):  # the last one ends its shard
        [whole] = kept_states.read([document])
        for source in (kept_states, online):
            part = source.read_at(document, own_P, needed_P)
            torch.testing.assert_close(part.features_TF, whole.features_TF[own_P], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(part.last_TE, whole.last_TE[needed_P], atol=1e-4, rtol=1e-4)


def test_only_what_is_missing_is_computed(online: Online, tmp_path: Path) -> None:
    FeatureStore(tmp_path, SETTINGS).fill(online, DOCUMENTS[:2])
    (tmp_path / ".features-00001-aaaaaaaaaaaa.safetensors.new").write_bytes(b"half a shard")  # what a kill leaves
    counted = []

    class Counting:
        def read(self, documents: list[list[int]]) -> list:
            counted.extend(documents)
            return online.read(documents)

    filled = FeatureStore(tmp_path, SETTINGS)
    filled.fill(Counting(), DOCUMENTS)
    assert sorted(map(tuple, counted)) == sorted(map(tuple, DOCUMENTS[2:]))
    assert len(filled.read(DOCUMENTS)) == len(DOCUMENTS)


def test_a_changed_text_is_missing_not_wrong(online: Online, tmp_path: Path) -> None:
    filled = FeatureStore(tmp_path, SETTINGS)
    filled.fill(online, DOCUMENTS[:1])
    with pytest.raises(ValueError, match="no states of this document of 5 tokens"):
        filled.read([[*DOCUMENTS[0][:-1], 7]])


def test_damage_and_other_settings_are_refused(online: Online, tmp_path: Path) -> None:
    FeatureStore(tmp_path, SETTINGS).fill(online, DOCUMENTS[:1])
    with pytest.raises(ValueError, match=r"weights w, not v"):
        FeatureStore(tmp_path, FeatureSettings("nano", "v", LAYERS, "fp32"))
    [shard] = tmp_path.glob("features-*-*.safetensors")
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        FeatureStore(tmp_path, SETTINGS)


def test_every_byte_is_looked_at_once_and_by_one_rank(
    online: Online, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FeatureStore(tmp_path, SETTINGS).fill(online, DOCUMENTS)
    [shard] = tmp_path.glob("features-*-*.safetensors")
    looked = []

    def counting(file, name: str):
        looked.append(file.name)
        return file_digest(file, name)

    monkeypatch.setattr(store, "file_digest", counting)
    assert FeatureStore(tmp_path, SETTINGS, check=False).holds(DOCUMENTS[0]) and looked == []
    assert FeatureStore(tmp_path, SETTINGS).holds(DOCUMENTS[0]) and looked == [str(shard)]
    assert FeatureStore(tmp_path, SETTINGS).holds(DOCUMENTS[0]) and looked == [str(shard)]
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        FeatureStore(tmp_path, SETTINGS)
    shard.write_bytes(data[:-9])
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        FeatureStore(tmp_path, SETTINGS, check=False)


def test_what_another_rank_has_written_is_taken_in(online: Online, tmp_path: Path) -> None:
    one, other = FeatureStore(tmp_path, SETTINGS), FeatureStore(tmp_path, SETTINGS)
    one.fill(online, DOCUMENTS[:2])
    other.fill(online, DOCUMENTS[2:])  # with the same number in its file's name
    one.refresh()
    other.refresh()
    assert len(one.read(DOCUMENTS)) == len(other.read(DOCUMENTS)) == len(DOCUMENTS)


def test_of_two_trainings_the_second_waits_and_reads(
    online: Online, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    inside = []

    def second() -> None:
        with kept(tmp_path):
            inside.append(FeatureStore(tmp_path, SETTINGS).holds(DOCUMENTS[0]))

    with kept(tmp_path):
        other = threading.Thread(target=second)
        other.start()
        other.join(0.3)
        assert not inside
        FeatureStore(tmp_path, SETTINGS).fill(online, DOCUMENTS[:1])
    other.join(20)
    assert inside == [True]
    assert "another training is filling it" in capsys.readouterr().err


def test_a_shard_that_comes_while_others_are_listed_is_no_error(
    online: Online, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FeatureStore(tmp_path, SETTINGS).fill(online, DOCUMENTS[:1])
    calls = []
    listed = FeatureStore.shards

    def growing(self: FeatureStore) -> list[Path]:
        calls.append(1)
        return listed(self) if len(calls) > 1 else []

    monkeypatch.setattr(FeatureStore, "shards", growing)
    assert FeatureStore(tmp_path, SETTINGS).holds(DOCUMENTS[0])


def test_a_directory_that_cannot_be_written_is_read(
    online: Online, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FeatureStore(tmp_path, SETTINGS).fill(online, DOCUMENTS[:1])
    (tmp_path / "checked.json").write_text("{damaged")

    def refused(path: Path, data: bytes) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(store, "write_atomically", refused)
    monkeypatch.setattr(FileLock, "acquire", lambda self, **_: refused(tmp_path / ".lock", b""))
    with kept(tmp_path):
        assert FeatureStore(tmp_path, SETTINGS).holds(DOCUMENTS[0])


@pytest.mark.parametrize("header", [None, {}, {"documents": "7"}, {"documents": "[[1]]"}, {"documents": "{"}])
def test_a_strangers_shard_is_named(header: dict[str, str] | None, tmp_path: Path) -> None:
    FeatureStore(tmp_path, SETTINGS)
    data = save({"features": torch.zeros(2, 3), "last": torch.zeros(2, 1)}, metadata=header)
    (tmp_path / f"features-00000-{digest(data)}.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match="is no shard of target states"):
        FeatureStore(tmp_path, SETTINGS)


def test_a_shard_of_other_lengths_is_named(tmp_path: Path) -> None:
    FeatureStore(tmp_path, SETTINGS)
    header = {"documents": json.dumps([["a", 3]])}
    data = save({"features": torch.zeros(2, 3), "last": torch.zeros(2, 1)}, metadata=header)
    (tmp_path / f"features-00000-{digest(data)}.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match="names 3 tokens and holds states of 2"):
        FeatureStore(tmp_path, SETTINGS)


def test_long_documents_get_shards_of_their_own() -> None:
    found = shares([[0] * n for n in (2, 3, 4, 5, 20, 3)], 9, 2)
    assert [[len(d) for d in part] for part in found] == [[2, 3], [4, 5], [20], [3]]


def test_a_fingerprint_follows_the_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"one")
    first = fingerprint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert fingerprint(tmp_path) != first


def test_groups_fit() -> None:
    groups = grouped([[0] * n for n in (3, 4, 5, 9, 20)], 12)
    assert [[len(d) for d in group] for group in groups] == [[3, 4], [5], [9], [20]]
