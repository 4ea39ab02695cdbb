"""Run directories: written completely or not at all."""

from __future__ import annotations

import errno
import stat
from datetime import datetime
from pathlib import Path

import pytest

from pssim.errors import OutputError
from pssim.report.directory import check_directory, default_directory, write_directory

FILES = {"a.txt": lambda: b"one", "b.txt": lambda: b"two"}
NOON = datetime(2026, 3, 4, 12, 0, 0)


def everything_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_all_files_are_there(tmp_path):
    """And nothing else, neither in the directory nor beside it."""
    written = write_directory(tmp_path / "run", FILES)
    assert (written / "a.txt").read_bytes() == b"one"
    assert everything_in(tmp_path) == ["run", "run/a.txt", "run/b.txt"]


def test_folders_above_are_made(tmp_path):
    """As deep as asked for."""
    assert write_directory(tmp_path / "x" / "y" / "run", FILES).is_dir()


def test_an_empty_directory_may_be_there_already(tmp_path):
    """For instance one made by mkdir or mktemp."""
    (tmp_path / "run").mkdir()
    assert everything_in(write_directory(tmp_path / "run", FILES)) == ["a.txt", "b.txt"]


def test_the_directory_is_as_open_as_any_other(tmp_path):
    """Not readable by its owner alone, as temporary ones are."""
    (tmp_path / "usual").mkdir()
    written = write_directory(tmp_path / "run", FILES)
    assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


def test_nothing_is_overwritten(tmp_path):
    """A directory with files in it, however few, is refused and stays as it is."""
    write_directory(tmp_path / "run", FILES)
    with pytest.raises(OutputError, match="has files in it"):
        write_directory(tmp_path / "run", {"a.txt": lambda: b"other"})
    assert (tmp_path / "run" / "a.txt").read_bytes() == b"one"


def test_a_file_is_refused(tmp_path):
    """Not replaced."""
    (tmp_path / "run").write_text("precious")
    with pytest.raises(OutputError, match="is a file"):
        check_directory(tmp_path / "run")


def test_a_folder_below_a_file_is_refused(tmp_path):
    """With what the file system says."""
    (tmp_path / "file").write_text("precious")
    with pytest.raises(OutputError, match="Not a directory"):
        check_directory(tmp_path / "file" / "run")


@pytest.mark.parametrize("target", ["x" * 300, "a\0b", "/proc/run"])
def test_what_the_file_system_refuses_is_said(target):
    """Too long a name, an impossible one, a place where nothing can be made."""
    with pytest.raises(OutputError, match="cannot write the run directory"):
        check_directory(Path(target))


def test_circular_links_are_refused(tmp_path):
    """They lead nowhere."""
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OutputError):
        check_directory(tmp_path / "a" / "run")


def test_a_link_is_followed(tmp_path):
    """The directory is where the link points."""
    (tmp_path / "link").symlink_to(tmp_path / "far")
    write_directory(tmp_path / "link", FILES)
    assert (tmp_path / "link").is_symlink()
    assert everything_in(tmp_path / "far") == ["a.txt", "b.txt"]


def test_the_working_directory_is_not_replaced(tmp_path, monkeypatch):
    """Whoever stands in it would find themselves nowhere."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="working directory"):
        check_directory(Path("."))


def test_asking_leaves_nothing_behind(tmp_path):
    """The check is made long before there is anything to write."""
    check_directory(tmp_path / "x" / "run")
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), KeyError()]
)
def test_what_fails_half_way_leaves_nothing_behind(tmp_path, error):
    """A full disk, Ctrl-C, a defect: no directory, no folders above it, no temporary files."""
    def fail():
        raise error

    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)):
        write_directory(tmp_path / "x" / "run", {"a.txt": lambda: b"one", "b.txt": fail})
    assert everything_in(tmp_path) == []


def test_the_target_appears_in_one_piece(tmp_path):
    """While files are being made there is nothing at the target yet."""
    seen = []

    def look():
        seen.append((tmp_path / "run").exists())
        return b""

    write_directory(tmp_path / "run", {"a.txt": look, "b.txt": look})
    assert seen == [False, False]


def test_a_directory_that_appeared_meanwhile_is_not_replaced(tmp_path):
    """Two runs with the same target: the second fails, the first keeps its files."""
    def other():
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "precious").write_text("")
        return b""

    with pytest.raises(OutputError, match="not empty"):
        write_directory(tmp_path / "run", {"a.txt": other})
    assert everything_in(tmp_path) == ["run", "run/precious"]


@pytest.mark.parametrize("parent", ["/proc", "/dev/null"])
def test_an_unwritable_parent_is_refused(parent):
    """Before anything is simulated, and for root too: nobody makes a directory there."""
    with pytest.raises(OutputError, match=parent):
        check_directory(Path(parent) / "run")


def test_the_default_is_named_after_scenario_and_time(tmp_path):
    """Below runs/."""
    assert default_directory("tianhe2", NOON, tmp_path) == tmp_path / "runs" / "tianhe2-20260304-120000"


def test_the_default_is_numbered_where_taken(tmp_path):
    """Two runs in one second do not meet."""
    for number in ("", "-2", "-3"):
        directory = default_directory("a", NOON, tmp_path)
        assert directory.name == f"a-20260304-120000{number}"
        write_directory(directory, FILES)


def test_the_default_never_leaves_runs(tmp_path):
    """Whatever the scenario is called."""
    assert default_directory("../../etc/x y", NOON, tmp_path).name == "etc-x-y-20260304-120000"
    assert default_directory("..", NOON, tmp_path).name == "run-20260304-120000"
