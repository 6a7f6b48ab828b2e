"""Deployment of a pipeline on AWS: state machine, Lambda functions, and CloudFormation stack."""
