"""Standard streams that are closed, or cannot show every character."""

import sys
from io import BytesIO, TextIOWrapper

from fedgrid.grids.cli.main import prepare_output


def test_a_closed_stream_leads_nowhere(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    prepare_output()
    with sys.stdout as out, sys.stderr as err:
        print("unseen")
        print("unseen", file=err)
        assert (out.name, err.name) == ("/dev/null", "/dev/null")


def test_what_cannot_be_encoded_is_replaced(monkeypatch):
    raw = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(raw, encoding="ascii"))
    prepare_output()
    print("0.4 ± 0.1", flush=True)
    assert raw.getvalue() == b"0.4 ? 0.1\n"
