"""`kaput bug`: an archive of a run folder that has the evidence, and no secret that was planted anywhere."""

from __future__ import annotations

import io
import json
import shutil
import socket
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from fakes.program import app
from kaput.cli.bug import installed
from kaput.errors import UsageError
from kaput.export.bug_report import hidden, pack, without_secrets

RECORDED = Path(__file__).parents[2] / "recorded" / "leader-disk-stall-acks-all"
SECRET = "hunter2-Xyzzy"


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A recorded run with secrets and payloads wherever a run can have them."""
    folder = tmp_path / "runs" / "20261127T000000-planted-abc123"
    shutil.copytree(RECORDED, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["troubles"] = [f"inject failed: curl --user admin:{SECRET} https://ops:{SECRET}@host/kill"]
    manifest["versions"]["token"] = SECRET
    (folder / "manifest.json").write_text(json.dumps(manifest))
    scenario = yaml.safe_load((folder / "scenario.yaml").read_text())
    scenario["faults"][0]["inject"] = f"curl -H 'Authorization: Bearer {SECRET}' broker/kill"
    scenario["workload"]["producers"][0]["config"] = {"ssl.keystore.password": SECRET}
    (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    (folder / "findings.json").write_text(json.dumps({"examples": [{"key": SECRET, "seq": 7}]}))
    (faults,) = (folder / "evidence" / "faults").glob("*.parquet")
    table = pq.read_table(faults)
    proof = pa.array([f"password={SECRET}, exit status 0"] * table.num_rows)
    pq.write_table(table.set_column(table.schema.names.index("proof"), "proof", proof), faults)
    broker = folder / "brokers" / "1"
    broker.mkdir(parents=True)
    jaas = f'ScramLoginModule required username="me" password="{SECRET}";'
    (broker / "server.properties").write_text(
        f"node.id=1\nsasl.jaas.config={jaas}\nssl.key.password: {SECRET}\n"
    )
    key = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
    (broker / "server.log").write_text(
        f"INFO started on {socket.gethostname()} in {Path.home()}/x\n{key}\nINFO on\n"
    )
    (broker / "00000000000000000000.log.data").write_text(SECRET)
    for name in ("clients/producer-0.err", "stores/kept.db", "analysis/lost/part.parquet", "report.html"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SECRET)
    return folder


def members_of(archive: Path) -> dict[str, bytes]:
    """The files of the archive by their paths in the run folder."""
    with tarfile.open(archive) as opened:
        files = [(each, opened.extractfile(each)) for each in opened]
        assert {each.uname for each, _ in files} == {""}
        return {each.name.split("/", 1)[1]: file.read() for each, file in files if file}


def test_nothing_planted_is_in_the_archive(run_folder: Path, tmp_path: Path) -> None:
    """Neither in a document, nor in a log, nor in a cell of a table."""
    assert pack(run_folder, tmp_path / "bug.tar.gz", installed()) == []
    files = members_of(tmp_path / "bug.tar.gz")
    for name, content in files.items():
        text = (
            str(pq.read_table(io.BytesIO(content)).to_pylist())
            if name.endswith(".parquet")
            else content.decode()
        )
        assert SECRET not in text, name
        assert socket.gethostname() not in text or socket.gethostname() == "localhost", name
    assert {"manifest.json", "scenario.yaml", "findings.json", "kaput-version.json"} <= set(files)
    assert [name for name in files if name.startswith(("clients", "stores", "analysis", "report"))] == []
    assert {name for name in files if name.startswith("brokers")} == {
        "brokers/1/server.properties", "brokers/1/server.log",
    }  # fmt: skip
    assert b"node.id=1" in files["brokers/1/server.properties"]
    assert files["brokers/1/server.log"].decode().endswith("INFO on\n")


def test_the_evidence_is_whole(run_folder: Path, tmp_path: Path) -> None:
    """Every table has the rows that it had; only texts with secrets differ."""
    pack(run_folder, tmp_path / "bug.tar.gz", {})
    files = members_of(tmp_path / "bug.tar.gz")
    tables = sorted((run_folder / "evidence").glob("*/*.parquet"))
    assert len(tables) > 5
    for path in tables:
        packed = pq.read_table(io.BytesIO(files[str(path.relative_to(run_folder))]))
        original = pq.read_table(path)
        if path.parent.name == "faults":
            packed, original = packed.drop_columns(["proof"]), original.drop_columns(["proof"])
        assert packed.equals(original), path


def test_what_has_no_secrets_is_unchanged(tmp_path: Path) -> None:
    """So the run can be judged again; checked with the scenario of each recorded run."""
    pack(RECORDED, tmp_path / "bug.tar.gz", {})
    files = members_of(tmp_path / "bug.tar.gz")
    assert json.loads(files["manifest.json"]) == json.loads((RECORDED / "manifest.json").read_text())
    assert yaml.safe_load(files["scenario.yaml"]) == yaml.safe_load((RECORDED / "scenario.yaml").read_text())
    for path in RECORDED.parent.glob("*/scenario.yaml"):
        scenario = yaml.safe_load(path.read_text())
        assert without_secrets(scenario) == scenario


def test_a_killed_runs_streams_are_packed_up_to_their_torn_tail(run_folder: Path, tmp_path: Path) -> None:
    """As much as the writer had written."""
    schema = pa.schema([("kind", pa.dictionary(pa.int16(), pa.string())), ("at_ns", pa.int64())])
    stream = run_folder / "evidence" / "plan" / "kaput.arrows"
    stream.parent.mkdir()
    with stream.open("wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for number in range(2):
            batch = pa.record_batch(
                [pa.array([f"token={SECRET}"]).dictionary_encode().cast(schema[0].type), [number]], schema
            )
            writer.write_batch(batch)
            whole = file.tell()
        file.truncate(whole - 4)
        file.seek(whole - 4)
    stream.write_bytes(stream.read_bytes()[: whole - 4])
    (run_folder / "evidence" / "plan" / "empty.arrows").write_bytes(b"")
    left_out = pack(run_folder, tmp_path / "bug.tar.gz", {})
    assert len(left_out) == 1
    assert "evidence/plan/empty.arrows" in left_out[0]
    packed = pa.ipc.open_stream(members_of(tmp_path / "bug.tar.gz")["evidence/plan/kaput.arrows"]).read_all()
    assert packed.to_pylist() == [{"kind": "token=(removed)", "at_ns": 0}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("election of a leader: 3", "election of a leader: 3"),
        ("seq 7 has key 5, tokens: none left", "seq 7 has key 5, tokens: (removed) left"),
        ('"sasl.password": "a b", "x": 1', '"sasl.password": (removed), "x": 1'),
        ("kafka://me:pw@host:9092", "kafka://(removed)@host:9092"),
        ("Authorization: Basic dXNlcjpwdw==", "Authorization: Basic (removed)"),
        ("mysql --password=x --host h", "mysql --password=(removed) --host h"),
        ("curl -u admin:pw broker/kill", "curl -u (removed) broker/kill"),
        ("sshpass -ppw ssh -p 22 host", "sshpass -p(removed) ssh -p 22 host"),
        ("sshpass -e ssh -p 22 host", "sshpass -e ssh -p 22 host"),
        ("mysql -h db -P 3306 -phunter2 x", "mysql -h db -P 3306 -p(removed) x"),
        ("mysqldump -p shop", "mysqldump -p shop"),
        ("redis-cli -p 6379 -a hunter2", "redis-cli -p 6379 -a (removed)"),
        ("x --password  pw", "x --password  (removed)"),
        ("docker run -p 9092:9092 --user 1000", "docker run -p 9092:9092 --user (removed)"),
        ("PGPASS=x SASL_PWD=y bypassed: 3", "PGPASS=(removed) SASL_PWD=(removed) bypassed: 3"),
        ("bypass=0, compass: north, keypass=x", "bypass=0, compass: north, keypass=(removed)"),
        ("a.errors.TokenNotFoundException: no such", "a.errors.TokenNotFoundException: no such"),
        ("at kafka.security.token.Manager: started x", "at kafka.security.token.Manager: started x"),
        ("CredentialException: bad", "CredentialException: bad"),
        ("my.Password: a, b", "my.Password: (removed)"),
        ('jaas: x.Login required username="me" password="pw";', "jaas: (removed)"),
        ("ssl.key.password=a, b\nnode.id=1", "ssl.key.password=(removed)\nnode.id=1"),
        ('sasl.jaas.config=Login \\\n  password="x";\nnode.id=1', "sasl.jaas.config=(removed)\nnode.id=1"),
        ("basic.auth.user.info=me:pw", "basic.auth.user.info=(removed)"),
        (
            '{"password": "a\\"b", "credentials": ["c", "d"]}',
            '{"password": (removed), "credentials": (removed)}',
        ),
        ("wrong password 'x y' of me", "wrong password (removed) of me"),
        ("https://ghp@host/x?sig=abc&a=1", "https://(removed)@host/x?sig=(removed)&a=1"),
        ("authorization: ApiKey abc", "authorization: ApiKey (removed)"),
        ("got eyJhbGciOi.eyJzdWIi.c2ln back", "got (removed) back"),
    ],
)
def test_secrets_are_known_by_name_or_form(text: str, expected: str) -> None:
    """And what is no secret stays."""
    assert hidden(text) == expected


@pytest.mark.parametrize("line", ["-" * 100_000, "a.b-" * 25_000, "token-" * 25_000 + ":"])
def test_a_long_line_is_read_once(line: str) -> None:
    """Not once for each of its characters, which would take minutes."""
    assert hidden(line) == line


def test_documents_have_no_secrets_below_a_name_or_after_an_option() -> None:
    """A list of words is a command."""
    groups = {"groups": {"token-refresher": {"lag": {"final": 3}}}}
    assert without_secrets(groups) == groups
    assert without_secrets({"password": 1234}) == {"password": "(removed)"}
    assert without_secrets(["sshpass", "-p", "pw", "ssh"]) == ["sshpass", "-p", "(removed)", "ssh"]
    assert without_secrets(["redis-cli", "-a", "pw"]) == ["redis-cli", "-a", "(removed)"]
    document = {
        "credentials": {"user": "me", "value": "pw"},
        "command": ["x", "--password", "pw", "-u", "a:b"],
    }
    assert without_secrets(document | {"run": ["python", "-u", "x.py"]}) == {
        "credentials": {"user": "(removed)", "value": "(removed)"},
        "command": ["x", "--password", "(removed)", "-u", "(removed)"],
        "run": ["python", "-u", "x.py"],
    }


def test_names_of_files_have_no_secrets(run_folder: Path, tmp_path: Path) -> None:
    """Neither the folder's, nor that of a broker's file; suffixes stay, and equal names are numbered."""
    for number in range(2):
        (run_folder / "brokers" / "1" / f"token={SECRET}{number}.log").write_text("INFO\n")
    planted = run_folder.rename(run_folder.with_name(f"password={SECRET}"))
    pack(planted, tmp_path / "bug.tar.gz", {})
    with tarfile.open(tmp_path / "bug.tar.gz") as opened:
        names = opened.getnames()
    assert [name for name in names if SECRET in name] == []
    broker = "password=(removed)/brokers/1"
    assert {f"{broker}/token=(removed).log", f"{broker}/token=(removed)-2.log"} <= set(names)


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    """And a file that exists is not overwritten."""
    with pytest.raises(UsageError, match="not a run folder"):
        pack(tmp_path, tmp_path / "bug.tar.gz", {})
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        pack(RECORDED, tmp_path / "out", {})
    assert (tmp_path / "out").read_text() == "mine"


def test_the_verb_names_the_archive(tmp_path: Path) -> None:
    """As JSON too; `kaput version --json` is in the archive."""
    out = tmp_path / "bug.tar.gz"
    result = CliRunner().invoke(app, ["bug", str(RECORDED), "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["bytes"] == out.stat().st_size
    about = json.loads(members_of(out)["kaput-version.json"])
    shown = json.loads(CliRunner().invoke(app, ["version", "--json"]).output)
    assert about == shown, (about, shown)
    assert shown["packages"]["confluent-kafka"]
    assert shown["packages"]["kaput-lab"] == shown["kaput"]  # installed or a checkout
