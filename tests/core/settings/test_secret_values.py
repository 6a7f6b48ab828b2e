"""A secret is named, read when it is needed, and shown nowhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakeward.adapters.secrets.local import EnvironmentSecrets, FileSecrets
from lakeward.core.errors import ConfigError
from lakeward.core.settings.secrets import Secret, SecretName

SHOWN = "hunter2 is no password"


def test_a_secret_is_neither_printed_nor_formatted_nor_pickled() -> None:
    secret = Secret(SHOWN.encode())
    for shown in (repr(secret), str(secret), f"{secret}", repr([secret]), repr(vars(type(secret)))):
        assert "hunter2" not in shown
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert secret.reveal() == SHOWN.encode()


def test_a_secret_is_removed_from_messages_of_others() -> None:
    said = Secret(SHOWN.encode()).hidden_in(f"no access for shop with {SHOWN}!")
    assert said == "no access for shop with …!"


def test_a_secret_name_has_one_form_and_another_text_is_not_shown() -> None:
    assert SecretName.read("file:/run/secrets/db") == SecretName("file", "/run/secrets/db")
    for text in (SHOWN, "env:", ":x", "ENV:x"):
        with pytest.raises(ConfigError) as refused:
            SecretName.read(text)
        assert SHOWN not in str(refused.value)


def test_a_secret_that_is_not_in_the_environment_is_an_error_that_names_the_variable() -> None:
    assert EnvironmentSecrets({"DB": SHOWN}).read("DB").reveal() == SHOWN.encode()
    with pytest.raises(ConfigError, match="env:DB is not there"):
        EnvironmentSecrets({}).read("DB")


def test_a_secret_of_a_file_has_no_line_end(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(SHOWN.encode() + b"\r\n")
    assert FileSecrets(tmp_path).read("db").reveal() == SHOWN.encode()
    (tmp_path / "empty").write_bytes(b"\n")
    for name in ("empty", "gone"):
        with pytest.raises(ConfigError, match=f"file:{name}"):
            FileSecrets(tmp_path).read(name)
