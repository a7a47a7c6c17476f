"""Packages from the npm registry: checked, pruned, kept; from a registry that is a folder here, so without network."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import tarfile
from pathlib import Path

import pytest

from labsim.lab import assets
from labsim.lab.assets import MARKER, PACKAGES, AssetUnavailable, Package, copy, fetch, find

ROOT = Path(__file__).resolve().parents[2]
FILES = {"package/LICENSE": "MIT", "package/dist/a.js": "let a = 1;", "package/test/huge.js": "not kept"}


def publish(registry: Path, files: dict[str, str], *links: tuple[str, str], keep=("LICENSE", "dist/*.js")) -> Package:
    """Put a package `tiny` into a registry folder; what pins it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    data = stream.getvalue()
    place = registry / "tiny" / "-"
    place.mkdir(parents=True, exist_ok=True)
    (place / "tiny-1.0.0.tgz").write_bytes(data)
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    return Package("tiny", "1.0.0", integrity, keep, "MIT")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABSIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("npm_config_registry", (tmp_path / "registry").as_uri())
    return tmp_path / "registry"


def pin(monkeypatch: pytest.MonkeyPatch, package: Package) -> None:
    monkeypatch.setattr(assets, "PACKAGES", {package.name: package})


def test_a_package_is_fetched_once_and_only_what_is_kept_is_written(registry, monkeypatch) -> None:
    pin(monkeypatch, publish(registry, FILES))
    assert find("tiny") is None
    folder = fetch("tiny")
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert written == {"LICENSE", "dist/a.js", MARKER}
    (registry / "tiny" / "-" / "tiny-1.0.0.tgz").unlink()
    assert fetch("tiny") == find("tiny") == folder  # without its registry
    assert list(folder.parent.iterdir()) == [folder]  # and no scaffolding is left


def test_a_damaged_package_is_made_anew(registry, monkeypatch) -> None:
    pin(monkeypatch, publish(registry, FILES))
    folder = fetch("tiny")
    (folder / "dist" / "a.js").write_text("")
    assert find("tiny") is None
    assert (fetch("tiny") / "dist" / "a.js").read_text() == "let a = 1;"
    assert list(folder.parent.iterdir()) == [folder]


def test_other_bytes_are_refused(registry, monkeypatch) -> None:
    package = publish(registry, FILES)
    publish(registry, {**FILES, "package/dist/a.js": "let a = 2;"})
    pin(monkeypatch, package)
    with pytest.raises(ValueError, match=r"tiny-1\.0\.0\.tgz has sha512 .*; tiny 1\.0\.0 has "):
        fetch("tiny")
    assert find("tiny") is None


def test_an_absent_registry_is_one_line_that_says_what_to_do(registry, monkeypatch) -> None:
    package = publish(registry, FILES)
    (registry / "tiny" / "-" / "tiny-1.0.0.tgz").unlink()
    pin(monkeypatch, package)
    with pytest.raises(AssetUnavailable, match="connect and run the same command again") as caught:
        fetch("tiny")
    assert "\n" not in str(caught.value)


def test_a_tarball_cannot_write_outside_its_folder(registry, monkeypatch) -> None:
    for name in ("package/../../dist/x.js", "/dist/x.js"):
        pin(monkeypatch, publish(registry, {**FILES, name: "bad"}))
        with pytest.raises(ValueError, match=r"its tarball holds .*; right: no \.\. or /"):
            fetch("tiny")
    pin(monkeypatch, publish(registry, FILES, ("package/dist/link.js", "/etc/passwd")))
    assert not (fetch("tiny") / "dist" / "link.js").exists()


def test_a_pattern_that_keeps_nothing_is_an_error(registry, monkeypatch) -> None:
    pin(monkeypatch, publish(registry, FILES, keep=("LICENSE", "fonts/*.woff")))
    with pytest.raises(ValueError, match=r"holds no fonts/\*\.woff"):
        fetch("tiny")


def test_copy_brings_the_files_and_no_marker(registry, monkeypatch, tmp_path) -> None:
    pin(monkeypatch, publish(registry, FILES))
    assert copy("tiny", tmp_path / "assets") == "tiny-1.0.0"
    copied = {str(path.relative_to(tmp_path)) for path in (tmp_path / "assets").rglob("*") if path.is_file()}
    assert copied == {"assets/tiny-1.0.0/LICENSE", "assets/tiny-1.0.0/dist/a.js"}


def test_an_unknown_name_and_a_cache_that_is_a_file(registry, monkeypatch, tmp_path) -> None:
    with pytest.raises(ValueError, match="mathjax"):
        fetch("mathjx")
    pin(monkeypatch, publish(registry, FILES))
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ValueError, match="LABSIM_CACHE is "):
        fetch("tiny")


def test_the_set_up_goes_on_without_a_registry(registry, capsys) -> None:
    spec = importlib.util.spec_from_file_location("setup_env", ROOT / "scripts" / "setup_env.py")
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    setup.fetch_assets()
    assert "Going on without slides and site: reveal.js" in capsys.readouterr().out


def test_what_is_pinned_is_pinned_with_sha512() -> None:
    assert PACKAGES.keys() == {"reveal.js", "mathjax", "axe-core"}
    for package in PACKAGES.values():
        kind, _, digest = package.integrity.partition("-")
        assert kind == "sha512" and len(base64.b64decode(digest)) == 64
