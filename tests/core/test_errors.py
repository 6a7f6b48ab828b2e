import pickle

import pytest

from lakeward.core.errors import AlarmRaised, CommitConflict, LakewardError


@pytest.mark.parametrize(
    "error",
    [
        CommitConflict("lost", found="another", todo="again"),
        AlarmRaised("LEDGER-001", "late", found="a file"),
        LakewardError("wrong"),
    ],
    ids=repr,
)
def test_errors_pass_between_processes(error: LakewardError) -> None:
    passed = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
    assert type(passed) is type(error)
    assert passed.__dict__ == error.__dict__
    assert str(passed) == str(error)
    assert passed.args == error.args
