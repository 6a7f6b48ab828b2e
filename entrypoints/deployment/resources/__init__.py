"""The resources of a pipeline's CloudFormation template, a module for each kind."""
