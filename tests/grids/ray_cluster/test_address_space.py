"""A limited address space (`ulimit -v`): every command ends in one line that says what is needed."""

import resource

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.ray_cluster import address_space
from tests.helpers.command_line import fedgrid


@pytest.fixture
def one_gb(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (10**9, 10**9))


@pytest.mark.parametrize("needed", [address_space.RAY_BYTES, address_space.REPORT_BYTES])
def test_less_than_a_command_needs_is_one_line_with_both(one_gb, needed):
    with pytest.raises(ConfigError, match=r"limited to 1.0 GB .ulimit -v., .*on Ray 16; `ulimit"):
        address_space.check_limit(needed)


def test_enough_and_no_limit_are_no_error(one_gb, monkeypatch):
    address_space.check_limit(10**9)
    assert address_space.describe_shortage(ImportError("No module named 'x'")) == ""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    address_space.check_limit(address_space.RAY_BYTES)
    assert address_space.describe_shortage(MemoryError()).startswith("not enough memory is free")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libgomp.so.1.0.0: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
    ],
)
def test_errors_of_libraries_that_want_memory_are_known(one_gb, error):
    wrapped = ImportError("numpy")
    wrapped.__cause__ = error
    assert address_space.describe_shortage(error) == address_space.describe_shortage(wrapped)
    assert address_space.describe_shortage(error).startswith("the address space is limited to 1.0 GB")


def test_a_command_that_lacks_memory_is_one_line(one_gb, tmp_path, monkeypatch):
    def lacking(place):
        raise ImportError("libtorch_cuda.so: failed to map segment from shared object")

    monkeypatch.setattr("fedgrid.engine.runtime.storage.storage.Storage.from_text", lacking)
    found = fedgrid("status", "--storage", tmp_path)
    assert (found.code, found.out, len(found.err.splitlines())) == (1, "", 1)
    assert "limited to 1.0 GB" in found.err
