"""The roles of a CloudFormation template as IAM reads them: which actions each allows on which resource.

Only the constructs in lakeward's templates are supported. All others raise an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from botocore.client import BaseClient
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT

REGION = "eu-central-1"
_HERE = f"{REGION}:{ACCOUNT}"

_PSEUDO = {"AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::StackName": "stack"}

_ARNS = {
    "AWS::SQS::Queue": ("QueueName", f"arn:aws:sqs:{_HERE}:{{}}"),
    "AWS::SNS::Topic": ("TopicName", f"arn:aws:sns:{_HERE}:{{}}"),
    "AWS::Lambda::Function": ("FunctionName", f"arn:aws:lambda:{_HERE}:function:{{}}"),
    "AWS::StepFunctions::StateMachine": ("StateMachineName", f"arn:aws:states:{_HERE}:stateMachine:{{}}"),
    "AWS::EMRServerless::Application": ("Name", f"arn:aws:emr-serverless:{_HERE}:/applications/{{}}"),
    "AWS::Logs::LogGroup": ("LogGroupName", f"arn:aws:logs:{_HERE}:log-group:{{}}:*"),
    "AWS::IAM::Role": (None, f"arn:aws:iam::{ACCOUNT}:role/{{}}"),
    "AWS::Events::Rule": (None, f"arn:aws:events:{_HERE}:rule/{{}}"),
    "AWS::DMS::ReplicationTask": (None, f"arn:aws:dms:{_HERE}:task:{{}}"),
}
"""For each resource type the property with its name (None: its name in the template), and its ARN."""

_REFERS_BY_ARN = ("AWS::SNS::Topic", "AWS::StepFunctions::StateMachine", "AWS::DMS::ReplicationTask")


@dataclass(frozen=True)
class Call:
    """A request to IAM: an action on a resource, with one or several values of each condition key."""

    action: str
    resource: str
    context: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Statement:
    """A statement of a policy, with resolved values."""

    name: str
    actions: Sequence[str]
    resources: Sequence[str]
    condition: Mapping[str, Mapping[str, Any]]

    def allows(self, call: Call) -> bool:
        """Return True if it allows a call. Actions are compared literally, without wildcards."""
        return (
            call.action in self.actions
            and any(_matches(one, call.resource) for one in self.resources)
            and all(self._holds(operator, keys, call) for operator, keys in self.condition.items())
        )

    def _holds(self, operator: str, keys: Mapping[str, Any], call: Call) -> bool:
        compared = operator.removeprefix("ForAllValues:")
        is_like = {"StringLike": True, "StringEquals": False}[compared]
        for key, wanted in keys.items():
            values = [wanted] if isinstance(wanted, str) else wanted
            value = call.context.get(key)
            if value is None:
                return False  # IAM would take a `ForAllValues` for true: a call of the tests says what it asks
            assert isinstance(value, str) == (compared == operator)
            for text in [value] if isinstance(value, str) else value:
                if not any(_matches(one, text) if is_like else one == text for one in values):
                    return False
        return True


def _matches(pattern: str, text: str) -> bool:
    expression = "".join({"*": ".*", "?": "."}.get(part, re.escape(part)) for part in re.split(r"([*?])", pattern))
    return re.fullmatch(expression, text, re.DOTALL) is not None


@dataclass(frozen=True)
class Stack:
    """A template with the values of its parameters."""

    template: Mapping[str, Any]
    values: Mapping[str, Any]

    def statements(self, role: str) -> Sequence[Statement]:
        """Return the statements of a role of the template."""
        policies = self.template["Resources"][role]["Properties"]["Policies"]
        own_statements = [one for policy in policies for one in policy["PolicyDocument"]["Statement"]]
        return [self._statement(one) for one in own_statements]

    def _statement(self, statement: Mapping[str, Any]) -> Statement:
        assert statement["Effect"] == "Allow"
        condition = self.resolve(statement.get("Condition", {}))
        return Statement(statement["Sid"], statement["Action"], self.resolve(statement["Resource"]), condition)

    def roles(self) -> Sequence[str]:
        """Return the names of all roles."""
        return [name for name, one in self.template["Resources"].items() if one["Type"] == "AWS::IAM::Role"]

    def resolve(self, value: Any) -> Any:
        """Return a value of the template as CloudFormation resolves it."""
        if isinstance(value, list):
            return [self.resolve(inner) for inner in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name == "Ref":
                return self._ref(argument)
            if name == "Fn::GetAtt":
                assert argument[1] == "Arn"
                return self._arn(argument[0])
            if name == "Fn::Sub":
                return self._sub(argument)
            assert not name.startswith("Fn::"), name
        return {name: self.resolve(inner) for name, inner in value.items()}

    def _sub(self, argument: Any) -> str:
        text, own = (argument, {}) if isinstance(argument, str) else (argument[0], self.resolve(argument[1]))
        return re.sub(r"\$\{([^}]+)\}", lambda match: str(own.get(match[1]) or self._ref(match[1])), text)

    def _ref(self, name: str) -> Any:
        if name in _PSEUDO:
            return _PSEUDO[name]
        if name in self.template["Parameters"]:
            return self.values.get(name, self.template["Parameters"][name].get("Default"))
        made = self.template["Resources"][name]
        if made["Type"] in _REFERS_BY_ARN:
            return self._arn(name)
        return made["Properties"][_ARNS[made["Type"]][0]]

    def _arn(self, name: str) -> str:
        made = self.template["Resources"][name]
        named_by, form = _ARNS[made["Type"]]
        return form.format(name if named_by is None else made["Properties"][named_by])


@dataclass(frozen=True)
class Requested:
    """A request of boto3: service, operation, parameters and region."""

    service: str
    operation: str
    parameters: Mapping[str, Any]
    region: str = REGION


def record_requests(requests: list[Requested], own: Mapping[str, Any]) -> Any:
    """Return a replacement of `BaseClient._make_api_call` that records all requests of boto3.

    Requests of the `own` clients of a test, by service, are not recorded.
    """
    ask = BaseClient._make_api_call

    def noting(self: Any, operation_name: str, api_params: dict[str, Any]) -> Any:
        if not any(one is self for one in own.values()):
            service, region = self.meta.service_model.service_name, self.meta.region_name
            requests.append(Requested(service, operation_name, api_params, region))
        return ask(self, operation_name, api_params)

    return noting


def calls_of(request: Requested) -> Sequence[Call]:
    """Return the calls to IAM for a request.

    Operations are mapped to actions as in the Service Authorization Reference of AWS. Most have the same name.
    """
    calls = _CALLS[request.service](request.operation, request.parameters)
    return [replace(one, resource=one.resource.replace(f":{REGION}:", f":{request.region}:")) for one in calls]


def _of_s3(operation: str, asked: Mapping[str, Any]) -> Iterator[Call]:
    bucket = f"arn:aws:s3:::{asked['Bucket']}"
    if operation in ("ListObjectsV2", "HeadBucket"):
        yield Call("s3:ListBucket", bucket, {"s3:prefix": asked.get("Prefix", "")})
        return
    if operation == "DeleteObjects":
        yield from (Call("s3:DeleteObject", f"{bucket}/{one['Key']}") for one in asked["Delete"]["Objects"])
        return
    if operation in ("CopyObject", "UploadPartCopy"):
        source = asked["CopySource"]
        named = source if isinstance(source, str) else f"{source['Bucket']}/{source['Key']}"
        yield Call("s3:GetObject", f"arn:aws:s3:::{named}")
    action = {
        "AbortMultipartUpload": "AbortMultipartUpload",
        "CompleteMultipartUpload": "PutObject",
        "CopyObject": "PutObject",
        "CreateMultipartUpload": "PutObject",
        "DeleteObject": "DeleteObject",
        "GetObject": "GetObject",
        "GetObjectTagging": "GetObjectTagging",
        "HeadObject": "GetObject",
        "PutObject": "PutObject",
        "PutObjectTagging": "PutObjectTagging",
        "UploadPart": "PutObject",
        "UploadPartCopy": "PutObject",
    }[operation]
    yield Call(f"s3:{action}", f"{bucket}/{asked['Key']}")


def _of_sqs(operation: str, asked: Mapping[str, Any]) -> Iterator[Call]:
    action = operation.removesuffix("Batch")
    yield Call(f"sqs:{action}", f"arn:aws:sqs:{_HERE}:{asked['QueueUrl'].rpartition('/')[2]}")


def _of_dynamodb(operation: str, asked: Mapping[str, Any]) -> Iterator[Call]:
    """Yield the actions. A transaction needs those of its items ("IAM policies with DynamoDB transactions")."""
    if operation == "TransactWriteItems":
        for item in asked["TransactItems"]:
            for kind, content in item.items():
                action = {"ConditionCheck": "ConditionCheckItem", "Put": "PutItem"}[kind]
                yield Call(f"dynamodb:{action}", _table(content["TableName"]), _leading(content))
    elif operation in ("BatchGetItem", "BatchWriteItem"):
        for name, content in asked["RequestItems"].items():
            yield Call(f"dynamodb:{operation}", _table(name), _leading(content))
    else:
        index = f"/index/{asked['IndexName']}" if "IndexName" in asked else ""
        yield Call(f"dynamodb:{operation}", _table(asked["TableName"]) + index, _leading(asked))


def _leading(asked: Any) -> Mapping[str, tuple[str, ...]]:
    """Return the requested partition keys of the tables of ledgers and leases."""
    return {"dynamodb:LeadingKeys": (*dict.fromkeys(_partition_keys(asked)),)}


def _partition_keys(asked: Any) -> Iterator[str]:
    if isinstance(asked, list):
        for inner in asked:
            yield from _partition_keys(inner)
    elif isinstance(asked, Mapping):
        for name, inner in asked.items():
            if name in ("ledger", "lease", ":ledger") and {*inner} == {"S"}:
                yield inner["S"]
            else:
                yield from _partition_keys(inner)


def _table(name: str) -> str:
    return f"arn:aws:dynamodb:{_HERE}:table/{name}"


def _of_ssm(operation: str, asked: Mapping[str, Any]) -> Iterator[Call]:
    names = asked.get("Names") or [asked.get("Name") or asked.get("Path")]
    for name in names:
        yield Call(f"ssm:{operation}", f"arn:aws:ssm:{_HERE}:parameter/{str(name).strip('/')}")


def _of_secretsmanager(operation: str, asked: Mapping[str, Any]) -> Iterator[Call]:
    if operation == "ListSecrets":
        yield Call("secretsmanager:ListSecrets", "*")
        return
    name = asked["SecretId"]
    yield Call(
        f"secretsmanager:{operation}",
        name if name.startswith("arn:") else f"arn:aws:secretsmanager:{_HERE}:secret:{name}-aBcDeF",
    )


def _of_states(operation: str, asked: Mapping[str, Any]) -> Iterator[Call]:
    yield Call(f"states:{operation}", asked.get("stateMachineArn") or asked["executionArn"])


def _of_dms(operation: str, asked: Mapping[str, Any]) -> Iterator[Call]:
    yield Call(f"dms:{operation}", "*")


def _of_glue(operation: str, asked: Mapping[str, Any]) -> Iterator[Call]:
    """Yield an action for each resource that the Data Catalog checks: the catalog, the database, the table."""
    if operation in ("GetJobRun", "StartJobRun"):
        yield Call(f"glue:{operation}", f"arn:aws:glue:{_HERE}:job/{asked['JobName']}")
        return
    database = asked.get("DatabaseName") or asked.get("DatabaseInput", asked).get("Name")
    named = asked.get("TableName") or asked.get("TableInput", asked).get("Name")
    table = named if "DatabaseName" in asked else None
    parts = ["catalog", f"database/{database}", *([f"table/{database}/{table}"] if table else [])]
    place = f"arn:aws:glue:{REGION}:{asked.get('CatalogId', ACCOUNT)}"
    yield from (Call(f"glue:{operation}", f"{place}:{part}") for part in parts)


def _of_lakeformation(operation: str, asked: Mapping[str, Any]) -> Iterator[Call]:
    """Yield the actions. A grant also checks the granted permissions, as the guide says of `GrantPermissions`."""
    yield Call(f"lakeformation:{operation}", "*")
    if operation == "GrantPermissions":
        ((kind, content),) = asked["Resource"].items()
        resource = {"Name": content["Name"]} if kind == "Database" else content
        yield from _of_glue(f"Get{'Database' if kind == 'Database' else 'Table'}", {**asked, **resource})


def _of_sns(operation: str, asked: Mapping[str, Any]) -> Iterator[Call]:
    yield Call(f"sns:{operation}", asked["TopicArn"])


_CALLS = {
    "s3": _of_s3,
    "sqs": _of_sqs,
    "dynamodb": _of_dynamodb,
    "ssm": _of_ssm,
    "secretsmanager": _of_secretsmanager,
    "stepfunctions": _of_states,
    "dms": _of_dms,
    "glue": _of_glue,
    "lakeformation": _of_lakeformation,
    "sns": _of_sns,
}


def missing_permissions(statements: Sequence[Statement], calls: Sequence[Call]) -> Sequence[Call]:
    """Return the calls that no statement allows."""
    return [call for call in dict.fromkeys(calls) if not any(one.allows(call) for one in statements)]


def unused_permissions(statements: Sequence[Statement], calls: Sequence[Call]) -> Sequence[tuple[str, str, str]]:
    """Return unused permissions: statement, action, and resource as written."""
    found = []
    for statement in statements:
        for action in statement.actions:
            for resource in statement.resources:
                only = Statement(statement.name, [action], [resource], statement.condition)
                if not any(only.allows(call) for call in calls):
                    found.append((statement.name, action, resource))
    return found
