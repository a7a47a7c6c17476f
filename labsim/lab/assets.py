"""The scripts, styles and fonts that slides and site need, fetched once and used offline ever after.

A page that asks another host for its scripts is blank in a room without network. A few packages of the npm registry
hold all that the course's pages need, and a set-up with network brings them into the cache:

    registry --sha512--> tarball --only the files named here--> $LABSIM_CACHE/assets/reveal.js-5.2.1-3f9c0d1b2a4e

The digest is npm's own (the `integrity` of a package-lock.json), so nobody in between can change a byte. The name of
the directory carries the version and a digest of what was kept; it is made beside its place and renamed when it is
complete, so a killed set-up leaves nothing that passes for a package, and two at once do no harm.

    folder = fetch("mathjax")                        # Path; from the cache when it is there
    place = copy("reveal.js", Path("build/slides/assets"))

`npm_config_registry`, npm's own variable, names a mirror. Standard library only: the set-up runs this on a bare Python.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from ..models.paths import cache_directory, cache_unusable
from ..sim.errors import unknown_name

REGISTRY = "https://registry.npmjs.org"
MARKER = "labsim-asset.json"
LARGEST_TARBALL = 64 << 20  # bytes; the largest in use has 6 MB
_REGISTRY_VARIABLES = ("npm_config_registry", "NPM_CONFIG_REGISTRY")
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Package:
    """An npm package: its version, the digest of its tarball, and patterns of the files that are kept of it."""

    name: str
    version: str
    integrity: str
    keep: tuple[str, ...]
    licence: str

    @property
    def folder(self) -> str:
        """Name of its directory in the cache: another version or another choice of files is another directory."""
        digest = hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:12]
        return f"{self.name}-{self.version}-{digest}"

    @property
    def tarball(self) -> str:
        registry = next((os.environ[name] for name in _REGISTRY_VARIABLES if os.environ.get(name)), REGISTRY)
        return f"{registry.rstrip('/')}/{self.name}/-/{self.name}-{self.version}.tgz"


PACKAGES = {
    package.name: package
    for package in (
        Package(
            name="reveal.js",
            version="5.2.1",
            integrity="sha512-r7//6mIM5p34hFiDMvYfXgyjXqGRta+/psd9YtytsgRlrpRzFv4RbH76TXd2qD+7ZPZEbpBDhdRhJaFgfQ7zNQ==",
            keep=(
                "LICENSE",
                "dist/re*.css",
                "dist/reveal.js",
                "dist/theme/fonts/source-sans-pro/LICENSE",
                "dist/theme/fonts/source-sans-pro/*.css",
                "dist/theme/fonts/source-sans-pro/*.woff",
                "plugin/notes/notes.js",
            ),
            licence="MIT (fonts: SIL Open Font License 1.1)",
        ),
        Package(
            name="mathjax",
            version="3.2.2",
            integrity="sha512-Bt+SSVU8eBG27zChVewOicYs7Xsdt40qm4+UpHyX7k0/O9NliPc+x77k1/FEsPsjKPZGJvtRZM1vO+geW0OhGw==",
            # The component that holds all of TeX: nothing is loaded later but its fonts.
            keep=("LICENSE", "es5/tex-chtml-full.js", "es5/output/chtml/fonts/woff-v2/*.woff"),
            licence="Apache-2.0",
        ),
        # No page contains it: the gates run it in the browser, over contrast and alternative texts.
        Package(
            name="axe-core",
            version="4.14.1",
            integrity="sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
            keep=("LICENSE", "axe.min.js"),
            licence="MPL-2.0",
        ),
    )
}


class AssetUnavailable(RuntimeError):
    """A package is not on this machine and could not be fetched. The message is one line and says what to do."""


def find(name: str) -> Path | None:
    """Where the package lies unpacked and whole; None while it does not. Fetches nothing.

    ValueError for a package that the course does not know.
    """
    package = _package(name)
    folder = cache_directory() / "assets" / package.folder
    try:
        sizes = json.loads((folder / MARKER).read_text(encoding="utf-8"))["bytes"]
        whole = all((folder / path).stat().st_size == size for path, size in sizes.items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):  # no marker, a damaged one, a file that went
        return None
    return folder if whole and sizes else None


def fetch(name: str, *, say: Callable[[str], None] = lambda line: None) -> Path:
    """The directory of the unpacked package, fetched first where that has not been done.

    Raises:
        AssetUnavailable: it is not here and the registry cannot be reached or has not got it.
        ValueError: the name is unknown, the bytes that came are not the pinned ones, or the cache cannot be used.
    """
    package = _package(name)
    if found := find(name):
        return found
    place = cache_directory() / "assets" / package.folder
    try:
        with _beside(place) as fresh:
            say(f"Fetching {package.name} {package.version} from {package.tarball}")
            _unpack(package, _download(package), fresh)
            sizes = {str(path.relative_to(fresh)): path.stat().st_size for path in _files(fresh)}
            marker = {**asdict(package), "bytes": sizes}
            (fresh / MARKER).write_text(json.dumps(marker, indent=2), encoding="utf-8")
            if found := find(name):  # another process has been faster
                return found
            if place.exists():
                os.rename(place, fresh.with_suffix(".damaged"))
            os.rename(fresh, place)
    except AssetUnavailable:
        raise
    except OSError as error:
        if found := find(name):
            return found
        raise ValueError(cache_unusable(error.strerror or error)) from error
    return place


def copy(name: str, assets: Path) -> str:
    """Copy the package into the folder `assets` unless it is there already; the name it has in there.

    Raises what `fetch` raises.
    """
    package, source = _package(name), fetch(name)
    target = assets / f"{package.name}-{package.version}"
    for path in _files(source):
        to = target / path.relative_to(source)
        if path.name != MARKER and not (to.exists() and to.stat().st_size == path.stat().st_size):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
    return target.name


def _package(name: str) -> Package:
    if name not in PACKAGES:
        raise unknown_name("asset", name, PACKAGES)
    return PACKAGES[name]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


@contextmanager
def _beside(place: Path) -> Iterator[Path]:
    """A new directory on the same disk, which goes away again with all that is left in and beside it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    try:
        fresh = scratch / "package"
        fresh.mkdir()
        yield fresh
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _download(package: Package) -> bytes:
    """The tarball, after a check of its digest."""
    try:
        with urllib.request.urlopen(package.tarball, timeout=_TIMEOUT_S) as answer:
            data = answer.read(LARGEST_TARBALL + 1)
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise AssetUnavailable(
            f"{package.name} {package.version} is not on this machine and {package.tarball} did not give it "
            f"({reason}): connect and run the same command again, or set npm_config_registry to a mirror of npm's"
        ) from error
    kind, _, expected = package.integrity.partition("-")
    found = base64.b64encode(hashlib.new(kind, data).digest()).decode()
    if found != expected:
        raise ValueError(f"{package.tarball} has {kind} {found}; {package.name} {package.version} has {expected}")
    return data


def _unpack(package: Package, data: bytes, folder: Path) -> None:
    """Write the kept files below `folder`. ValueError for a tarball that wants to write elsewhere or lacks them."""
    unmatched = set(package.keep)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(
                    f"{package.name} {package.version}: its tarball holds {member.name!r}; right: no .. or /"
                )
            inside = str(PurePosixPath(*path.parts[1:]))  # npm puts everything below package/
            patterns = {pattern for pattern in package.keep if fnmatch(inside, pattern)}
            if not patterns or not member.isfile():  # links and devices are never written
                continue
            unmatched -= patterns
            to = folder / inside
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(archive.extractfile(member).read())
    if unmatched:
        raise ValueError(f"{package.name} {package.version}: its tarball holds no {', '.join(sorted(unmatched))}")
