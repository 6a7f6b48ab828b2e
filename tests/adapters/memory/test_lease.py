"""The lease in memory, held to the kit; that of DynamoDB has tests of its own."""

from __future__ import annotations

from tenancies import in_memory

from lakeward.plugins.testing import lease_contract

TestMemory = lease_contract(in_memory)
