"""The pages of the manual, as mandoc reads them."""

import re
import subprocess

from conftest import binary


def test_mandoc_finds_nothing_in_any_page(tmp_path):
    subprocess.run([binary(), "man", "--dir", str(tmp_path)], check=True)
    pages = sorted(tmp_path.iterdir())
    assert "cardswitch-token-add.1" in [page.name for page in pages]
    ran = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *map(str, pages)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert (ran.returncode, ran.stdout) == (0, "")


def test_pages_show_values_defaults_and_environment(tmp_path):
    subprocess.run([binary(), "man", "--dir", str(tmp_path)], check=True)

    def page(name: str) -> str:
        shown = subprocess.run(
            ["mandoc", "-T", "utf8", "-O", "width=200", str(tmp_path / f"{name}.1")],
            stdout=subprocess.PIPE,
            check=True,
        )
        # Bold is written as the same letter twice.
        return re.sub(".\x08", "", shown.stdout.decode())

    serve, send, add = page("cardswitch-serve"), page("cardswitch-send"), page("cardswitch-token-add")
    assert "cardswitch serve [OPTIONS] --data <DIR>" in serve
    assert "Environment: CARDSWITCH_CLOCK" in serve and "• manual" in serve
    assert "Default: 127.0.0.1:8583" in send
    assert "• accountant" in add
