"""States on disk are the target's own, whatever interrupted their writing."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from labsim.features import store
from labsim.features.source import Online
from labsim.features.store import FeatureSettings, FeatureStore, fingerprint, grouped, shares
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
