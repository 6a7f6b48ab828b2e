"""The ledger: source objects, their selection, full loads, and checks of listings for signs of loss."""
