"""What leaves the program holds no secret, whichever library has put it into its message."""

import pickle
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError, DataError, RunError
from fedgrid.engine.runtime.run.failure import describe_error
from fedgrid.engine.runtime.storage.remote import open_file_system
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.store import tracking_uri
from fedgrid.redaction import escape_controls, redact_secrets

SECRET = "s3cr3t-W0rd"
SLASHED = "wJalrXUtn/FEMI/K7MDENG"
"""As the keys of S3 are made: pyarrow and urllib read a path where the slash is."""

FORMS = [
    f"s3://key:{SECRET}@bucket/runs",
    f"s3://AKIA123:{SLASHED}@bucket/runs",
    f"Cannot parse URI: 's3://AKIA123:{SLASHED}@bucket/runs'",
    f"abfs://:{SECRET}@account.dfs.core.windows.net/runs",
    f"abfss://container:{SECRET}@account.dfs.core.windows.net/runs",
    f"https://{SECRET}@host/runs",
    f"hdfs://user:{SECRET}@name:8020/runs",
    f"postgresql+psycopg2://me:{SECRET}@db:5432/mlflow?sslmode=require",
    f"mysql://root:{SECRET}@@host/mlflow",
    f"mysql://root:p@{SECRET}@host/mlflow",
    f"https://x.blob.core.windows.net/c?sv=2024-01-01&sig={SECRET}&se=2030",
    f"https://host/runs?password={SECRET}",
    f"s3://bucket/runs?access_key={SECRET}&secret_key={SECRET}&region=eu-west-1",
    f"s3://bucket/runs?X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}&X-Amz-Security-Token={SECRET}",
    f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}==;EndpointSuffix=core",
    f"BlobEndpoint=https://a;SharedAccessSignature={SECRET}",
    f"AWS_SECRET_ACCESS_KEY={SECRET} is not valid",
    f"connection failed: host=db user=me password='{SECRET} {SECRET}' dbname=mlflow",
    f"dbpassword = {SECRET}",
    f"client_kwargs {{'aws_secret_access_key': '{SECRET}', \"sas_token\": \"{SECRET}\"}}",
    f"Authorization: Bearer {SECRET}",
    f"headers: Basic {SECRET}",
]
HARMLESS = [
    "npz:one.npz@4f90b7c2",
    "folder:/data/mine#64@4f90b7c2 is new: fedgrid run mine",
    "abfs://container@account.dfs.core.windows.net/runs",
    "s3://bucket/runs?region=eu-west-1&endpoint_override=localhost:9000",
    "http://127.0.0.1:5000/#/experiments/1/runs?orderByKey=tags.x",
    "sqlite:////data/me@host/mlflow.db: file is not a database",
    "http://host:8080/images@2x.png",
    "unknown key 'cleints' in split; did you mean 'clients'? allowed: clients, seed",
    "training.learning_rate = -1.0: input should be greater than 0",
    "design=3, significance=0.05, tokens=5, key=3",
]


@pytest.mark.parametrize("text", FORMS)
def test_secret_is_replaced(text):
    shown = redact_secrets(text)
    assert "***" in shown
    assert SECRET not in shown
    assert "FEMI" not in shown


@pytest.mark.parametrize("text", HARMLESS)
def test_text_without_secrets_stays(text):
    assert redact_secrets(text) == text


def test_what_stands_around_a_secret_stays():
    assert redact_secrets("s3://k:x@bucket/a?region=eu&secret_key=x is gone; ?sig=x: try b") == (
        "s3://***@bucket/a?region=eu&secret_key=*** is gone; ?sig=***: try b"
    )


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["a.b-", "a:", "pass", "://a:b", "a=", "'a'", "bearer ", "a://b:@"])
def test_long_text_does_not_take_quadratic_time(text):
    assert redact_secrets(text * 5_000).startswith(text[0])


@pytest.mark.parametrize("kind", [ConfigError, DataError, RunError, TrackerFailed])
def test_error_holds_no_secret(kind):
    error = pickle.loads(pickle.dumps(kind(f"?sig={SECRET}")))
    assert SECRET not in f"{error} {error!r}"


@pytest.mark.parametrize(
    "uri",
    [
        f"s3://AKIA123:{SLASHED}@bucket/runs",
        f"s3://AKIA123:{SECRET}@bucket/runs?sig={SECRET}",
        f"gs://me:{SECRET}@bucket/runs?secret_key={SECRET}",
        f"nowhere://me:{SECRET}@host/runs",
    ],
)
def test_error_of_a_file_systems_library_holds_no_secret(uri):
    with pytest.raises(ConfigError) as refused:
        open_file_system(uri)
    assert "://***@" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "FEMI" not in str(refused.value)


@pytest.mark.parametrize("uri", [f"http://[::1?password={SECRET}", f"htp://me:{SECRET}@host"])
def test_error_of_the_address_of_a_store_holds_no_secret(uri, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(TrackerFailed, match=r"\*\*\*") as refused:
        tracking_uri(tmp_path)
    assert SECRET not in str(refused.value)


def test_cause_of_an_unexpected_error_holds_no_secret():
    assert SECRET not in describe_error(OSError(f"no s3://key:{SECRET}@bucket"))


def test_every_error_of_the_engine_goes_through_the_redactor():
    """A class that overrides `__init__` must pass its message on."""
    error = ConfigError(f"?sig={SECRET}", ("a", "b"))
    assert (str(error), error.key) == ("?sig=***", ("a", "b"))


def test_control_characters_become_escapes():
    assert escape_controls("a\x1b[2J\x07é\u202e\n\tb") == "a\\x1b[2J\\x07é\\u202e\n\tb"


def test_the_redactor_imports_nothing_of_ours():
    import fedgrid.redaction

    assert "fedgrid" not in Path(fedgrid.redaction.__file__).read_text().partition('"""\n\n')[2]
