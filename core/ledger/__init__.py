"""The ledger: objects of a source, which of them a batch takes, full loads, and signs of loss in a listing."""
