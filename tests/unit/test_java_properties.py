"""Properties files and logins, read as Java and Kafka read them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaput.errors import UsageError
from kaput.java_properties import login_options, properties_text, read_settings

_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required "
_ALICE = {"username": "alice", "password": "secret1"}


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (b"# one\n! two\n\nacks = all\n", {"acks": "all"}),
        (b"a: b\nc d\n e\t=\ff\n", {"a": "b", "c": "d", "e": "f"}),
        (b"a=b \\\n   c \\\r\n\td\n", {"a": "b c d"}),
        (b"# not continued \\\na=b\n", {"a": "b"}),
        (b"a=b\\\\\nc=d\n", {"a": "b\\", "c": "d"}),
        (b"a=b\\\n# no comment\n", {"a": "b# no comment"}),
        (b"a=b \r\nc=d\re=f", {"a": "b ", "c": "d", "e": "f"}),
        (b"a\\=b\\:c\\ d=\\te\\u00e9\\q\n", {"a=b:c d": "\teéq"}),
        (b"alone\n=nameless\n", {"alone": "", "": "nameless"}),
        (b"\xef\xbb\xbfa=\xc3\xa9\n", {"a": "é"}),
        (b"a=\xe9\n", {"a": "é"}),
        (b"a=1\na=2\n", {"a": "2"}),
        (b"a==b = c\n", {"a": "=b = c"}),
        (b"a=b\\", {"a": "b"}),
        (b"", {}),
    ],
)
def test_properties_are_those_of_java(tmp_path: Path, data: bytes, settings: dict[str, str]) -> None:
    """Each result is that of java.util.Properties, but for the byte order mark, which Java keeps."""
    path = tmp_path / "client.properties"
    path.write_bytes(data)
    assert {name: each.value for name, each in read_settings(path).items()} == settings


def test_setting_has_the_line_on_which_it_begins(tmp_path: Path) -> None:
    """Continued lines before it count."""
    path = tmp_path / "client.properties"
    path.write_text("# one\na=b\\\n  c\nd=e\n")
    assert {name: setting.line for name, setting in read_settings(path).items()} == {"a": 2, "d": 4}


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    """With the line where one is wrong."""
    path = tmp_path / "client.properties"
    path.write_text("acks=all\nname=\\u12g4\n")
    with pytest.raises(UsageError, match=r"client\.properties:2: \\u needs four hexadecimal digits"):
        read_settings(path)
    with pytest.raises(UsageError, match="no such file"):
        read_settings(tmp_path / "missing")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('username="alice" password="secret1";', _ALICE),
        ("username='alice' password='p;w=1';", {"username": "alice", "password": "p;w=1"}),
        ("username=alice password=secret1;", _ALICE),
        ("username = alice\n  password = secret1 ;", _ALICE),
        (r'username="al\"ice" password="\101\t";', {"username": 'al"ice', "password": "A\t"}),
        ("/* who */ username=alice // a comment\n password=secret1;", _ALICE),
        ("debug=true;", {"debug": "true"}),
        (";", {}),
    ],
)
def test_login_is_read_with_any_quotes(text: str, options: dict[str, str]) -> None:
    """As Kafka's JaasConfig reads it."""
    assert login_options(_MODULE + text) == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PlainLoginModule username=alice;", "not followed by `required`"),
        (_MODULE + 'username="alice"', "does not end with a semicolon"),
        (_MODULE + "username;", "'username' has no value"),
        (_MODULE + "username= ;", "'username' has no value"),
        (
            _MODULE + "password=12345;",
            "'password' has no value; write a value that begins with a digit in quotes",
        ),
        (_MODULE + "username=alice; " + _MODULE + ";", "more than one login module"),
    ],
)
def test_login_that_kafka_refuses_is_an_error(text: str, message: str) -> None:
    """It is one for Java's clients, too."""
    with pytest.raises(ValueError, match=message):
        login_options(text)


@given(st.text(alphabet="ab=:; \t\"'\\/*\nu0-_$.é1", max_size=40))
def test_any_login_gives_options_or_a_value_error(text: str) -> None:
    """No other exception, and no value of the text in it: it may be a password."""
    try:
        options = login_options(_MODULE + text)
    except ValueError as error:
        assert len(str(error)) < 100
    else:
        assert all(isinstance(value, str) for value in options.values())


def test_written_properties_are_read_again(tmp_path: Path) -> None:
    """Whatever is in them, in ASCII, since Java reads ISO 8859-1."""
    settings = {"a b": "c=d: e", "path": " C:\\x", "text": "n\u00e4h\n\U0001f600", "yes": True}
    text = properties_text(settings)
    assert text == "a\\ b=c=d: e\npath=\\ C:\\\\x\ntext=n\\u00e4h\\u000a\\ud83d\\ude00\nyes=true\n"
    path = tmp_path / "x.properties"
    path.write_text(text)
    read = {name: each.value for name, each in read_settings(path).items()}
    assert read.pop("text").encode("utf-16-be", "surrogatepass").decode("utf-16-be") == settings.pop("text")
    assert read == settings | {"yes": "true"}
