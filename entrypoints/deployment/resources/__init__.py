"""The resources of the CloudFormation template of a pipeline, one module for each kind."""
