"""The laws of secrets in the environment and in files."""

from __future__ import annotations

from pathlib import Path

from lakeward.adapters.secrets.local import EnvironmentSecrets, FileSecrets
from lakeward.plugins.testing import SecretStoreUnderTest, secrets_contract


def in_the_environment() -> SecretStoreUnderTest:
    return SecretStoreUnderTest(
        secrets=EnvironmentSecrets({"PEPPER": "s3cr\u00e9t"}), name="PEPPER", value="s3cr\u00e9t".encode()
    )


def in_a_file(tmp_path: Path) -> SecretStoreUnderTest:
    (tmp_path / "pepper").write_bytes(b"two\nlines\xff\r\n")
    return SecretStoreUnderTest(secrets=FileSecrets(tmp_path), name="pepper", value=b"two\nlines\xff")


TestEnvironment = secrets_contract(in_the_environment)
TestFiles = secrets_contract(in_a_file)
