"""A run that was interrupted goes on where it was, and only the same run does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ttlproxy.errors import OperationError
from ttlproxy.operations.key_walk import ResumeFile, WalkPosition
from ttlproxy.operations.migration.mover import State


def _file(path: Path, **job: str) -> ResumeFile:
    return ResumeFile(path, job)


def test_what_was_kept_is_there_until_the_run_is_over(tmp_path: Path) -> None:
    file = _file(tmp_path / "state", unit="s")
    assert file.load(State.of) is None
    state = State(part=2, place=WalkPosition("server", "7", 100))
    state.counts["keys"] = 3
    file.keep(State().kept())
    file.keep(state.kept())
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert _file(tmp_path / "state", unit="s").load(State.of) == state
    state.check()
    file.keep(state.kept())
    kept = file.load(State.of)
    assert kept is not None
    assert (kept.moved, kept.counts) == (Counter(keys=3), Counter())
    file.remove()
    file.remove()
    assert file.load(State.of) is None


def test_what_another_run_has_kept_is_refused(tmp_path: Path) -> None:
    _file(tmp_path / "state", proxy="a", unit="s").keep({})
    with pytest.raises(OperationError, match=r"another run, .* \(match, unit differ\): .*--state"):
        _file(tmp_path / "state", proxy="a", unit="ms", match="b").load(dict)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"job": {}, "place": 3}', '{"job": 1}'])
def test_what_is_no_state_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "state").write_text(content)
    with pytest.raises(OperationError, match="is no state that can be read"):
        ResumeFile(tmp_path / "state", {}).load(State.of)


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(OperationError, match=r"cannot write .*/state: No such file"):
        _file(tmp_path / "none" / "state").keep({})
