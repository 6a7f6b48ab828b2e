"""What adapters share that reach S3: where it is, as whom, and what it says in a person's words."""
