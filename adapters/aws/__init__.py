"""What adapters share that reach a service of AWS: as whom they ask, and what keeps it from answering."""
