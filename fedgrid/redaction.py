"""Text that leaves this program: without secrets, and safe to print.

Errors, warnings, logs, marks and tags pass through `redact_secrets`. This module imports nothing of
fedgrid's, so that every package can use it.
"""

import csv
import re
import unicodedata
from collections.abc import Iterable
from io import StringIO
from typing import Any

HIDDEN = "***"
"""Text in place of a secret."""

_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|pwd|secret|(?<!num_)token(?!s)|credential|signature|authorization"
    r"|(?<![a-z])(?:sig|sas)(?![a-z])|(?:access|account|api|private|shared|storage)[_.-]?key",
    re.IGNORECASE,
)
"""Names of keys whose values are secrets. Numbers of tokens are not."""
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s&;,"'<>()\[\]{}]*[^\s&;,"'<>()\[\]{}:])"""
"""A value after = or a colon, quoted or up to the next separator."""
_LONGEST = 1000
"""Characters of a password. Without a limit, a long text takes quadratic time."""

# Every pattern begins only where a word begins, for the same reason.
_USER = re.compile(
    # In addresses of Azure, a container without a password stands before the @.
    r"(?<![a-z0-9+.-])(?P<scheme>[a-z][a-z0-9+.-]*://)"
    # To the last @ of the word: a password may contain / and @. After a port and a slash comes a path.
    rf"(?:[^\s/@:'\"]{{0,{_LONGEST}}}:(?!\d+/)[^\s'\"]{{0,{_LONGEST}}}@"
    rf"|(?<!abfs://)(?<!abfss://)(?<!wasb://)(?<!wasbs://)[^\s/@:'\"]{{1,{_LONGEST}}}@)",
    re.IGNORECASE,
)
_PAIR = re.compile(
    rf"""(?P<name>(?<![\w.-])[\w.-]+)(?P<equals>\s?=\s?){_VALUE}"""
    rf"""|(?P<quoted>["'][\w.-]+["'])(?P<colon>\s{{0,4}}:\s{{0,4}}){_VALUE}"""
)
_HTML = re.compile(r"<(?=[a-z/!?])", re.IGNORECASE)
_HEADER = re.compile(r"(?P<kind>\b(?:bearer|basic)\s)\s{0,4}(?=\S{8})[\w.~+/=-]+", re.IGNORECASE)


def redact_secrets(text: str) -> str:
    """Replace the secrets in a text by asterisks.

    Secrets are a user name and password before the @ of an address with a scheme, the values of keys such as
    `sig`, `password` or `secret_key` (in a query, a connection string or a mapping), and the tokens of HTTP
    headers.
    """
    # Addresses first: a password in one may look like a pair.
    text = _USER.sub(lambda match: f"{match['scheme']}{HIDDEN}@", text)
    return _HEADER.sub(rf"\g<kind>{HIDDEN}", _PAIR.sub(_hide_value, text))


def escape_controls(text: str) -> str:
    """Escape the control characters of a text, except line ends and tabs.

    They may move the cursor, colour the screen, or reverse the text's direction.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
        else character.encode("unicode_escape").decode()
        for character in text
    )


def format_csv(rows: Iterable[Iterable[Any]]) -> str:
    """Format rows as the text of a csv file; the first of them are its headings."""
    text = StringIO()
    # Plain line ends: the csv module's default is that of Windows.
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def escape_markdown(text: str) -> str:
    """Escape text for a cell or a sentence of Markdown: on one line, without HTML, links and images."""
    text = text.replace("\n", " ").replace("\t", " ")
    return _HTML.sub("&lt;", text).replace("|", r"\|").replace("](", r"]\(")


def _hide_value(match: re.Match[str]) -> str:
    """Replace the value of a pair by asterisks if its key names a secret."""
    name = match["name"] or match["quoted"]
    between = match["equals"] or match["colon"]
    return f"{name}{between}{HIDDEN}" if _SECRET_NAME.search(name) else match[0]
