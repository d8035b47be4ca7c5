"""The Debian package around the binary at hand: unpacked without installing, its switch serves, and what belongs to
it is in its place."""

import gzip
import hashlib
import pathlib
import subprocess
import urllib.request

import pytest
from conftest import ROOT, binary

PLACES = [
    "lib/systemd/system/cardswitch.service",
    "usr/share/bash-completion/completions/cardswitch",
    "usr/share/zsh/vendor-completions/_cardswitch",
    "usr/share/fish/vendor_completions.d/cardswitch.fish",
    "usr/share/doc/cardswitch/copyright",
]


@pytest.fixture
def packed(tmp_path) -> pathlib.Path:
    """Where the packages are."""
    out = tmp_path / "packages"
    package = ROOT / "tools" / "packaging" / "package"
    ran = subprocess.run(
        [package, "--binary", binary(), "--out", out], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return out


def test_a_switch_serves_from_the_unpacked_package(packed, tmp_path):
    [deb] = packed.glob("*.deb")
    sums = dict(line.split()[::-1] for line in (packed / "SHA256SUMS").read_text().splitlines())
    assert sums == {deb.name: hashlib.sha256(deb.read_bytes()).hexdigest()}
    root = tmp_path / "root"
    subprocess.run(["dpkg", "-x", deb, root], check=True)
    for place in PLACES:
        assert (root / place).stat().st_size > 0, place
    page = gzip.decompress((root / "usr/share/man/man1/cardswitch-serve.1.gz").read_bytes())
    assert b".SH SYNOPSIS" in page
    unit = (root / PLACES[0]).read_text()
    [start] = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    program = root / start.removeprefix("ExecStart=").split()[0].lstrip("/")

    data = str(tmp_path / "data")
    subprocess.run([program, "init", "--data", data], check=True, stdout=subprocess.DEVNULL)
    doors = [f"--{door}=127.0.0.1:0" for door in ("http", "iso8583")]
    process = subprocess.Popen(
        [program, "serve", "--data", data, *doors], stdout=subprocess.PIPE, text=True
    )
    try:
        ready = dict(part.split("=") for part in process.stdout.readline().split()[1:])
        with urllib.request.urlopen(f"http://{ready['http']}/docs") as answer:
            assert answer.status == 200
        process.terminate()
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
