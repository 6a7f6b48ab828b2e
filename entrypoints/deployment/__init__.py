"""What is deployed around a pipeline on AWS: its state machine, the functions that it calls, and the stack."""
