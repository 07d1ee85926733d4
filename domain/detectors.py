"""
Detectors of secrets in texts: keys and tokens, private keys, e-mail addresses, card numbers.

A detector looks for a fixed text first, and its expression has bounds: the time is linear in the length of the text.
The detectors are not in `redaction.py`, because compiling their expressions takes longer than importing a chat.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from .concurrency.locks import fork_safe_lock, synchronized
from .errors import InvalidInputError

LEFT_MAX = 128


class Detector(NamedTuple):
    """
    One kind of secret: its group, texts of which one must be there, and the expression for the secret.

    If the expression has a group `secret`, only that part is hidden. `is_real` rejects matches that only look like a
    secret. With `left`, a secret begins before the match, with 1 to LEFT_MAX of these characters.
    """

    name: str
    group: str
    needles: tuple[str, ...]
    found: re.Pattern[str]
    is_real: Callable[[str], bool] = lambda found: True
    left: str = ""


def _token(name: str, needles: tuple[str, ...], body: str) -> Detector:
    """Return the detector of a token that begins with one of some texts, and with no letter or digit before them."""
    # The fixed text stands before the lookbehind: the search for it then runs in C.
    starts = "|".join(rf"{re.escape(needle)}(?<![A-Za-z0-9_]{re.escape(needle)})" for needle in needles)
    return Detector(name, "keys", needles, re.compile(rf"(?:{starts}){body}(?![A-Za-z0-9_])"))


def _passes_luhn(digits: str) -> bool:
    values = [int(digit) for digit in reversed(digits)]
    doubled = (sum(divmod(2 * value, 10)) for value in values[1::2])
    return (sum(values[::2]) + sum(doubled)) % 10 == 0


# The first digits and the lengths of the cards in use: numbers of other kinds, such as times, do not begin so.
_ISSUED = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"
    r"|(?:5[1-5]\d{2}|222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}"
    r"|(?:6011|65\d{2}|64[4-9]\d)\d{12}"
    r"|35(?:2[89]|[3-8]\d)\d{12}"
    r"|3(?:0[0-5]|[68]\d)\d{11}"
    r"|62\d{14,17}"
)


def _is_card(found: str) -> bool:
    digits = "".join(filter(str.isdigit, found))
    return _ISSUED.fullmatch(digits) is not None and _passes_luhn(digits)


_WORD = "[A-Za-z0-9_-]"
DETECTORS: tuple[Detector, ...] = (
    Detector(
        "private key",
        "private keys",
        ("PRIVATE KEY",),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:\s{0,4}[A-Za-z-]{1,40}: [^\n]{0,200}\n){0,8}"
            r"[A-Za-z0-9+/=\s\\]{0,65536}(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
        ),
    ),
    _token("Anthropic key", ("sk-ant-",), rf"{_WORD}{{20,300}}"),
    # Some words with hyphens begin like this, too. A key has capital letters and digits.
    _token("OpenAI key", ("sk-",), rf"(?!ant-){_WORD}{{20,300}}")._replace(
        is_real=lambda found: re.search("[0-9]", found) is not None and not found.islower()
    ),
    _token("AWS key", ("AKIA", "ASIA"), "[A-Z0-9]{16}"),
    Detector(
        "AWS secret",
        "keys",
        ("ecret",),
        re.compile(
            r"(?i:aws.{0,20}secret.{0,20}key)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"
        ),
    ),
    _token("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), "[A-Za-z0-9]{36,255}"),
    _token("GitHub token", ("github_pat_",), "[A-Za-z0-9_]{22,255}"),
    _token("GitLab token", ("glpat-", "glrt-", "gldt-", "glptt-"), rf"{_WORD}{{20,255}}"),
    _token("Slack token", ("xoxb-", "xoxp-", "xoxa-", "xoxo-", "xoxs-", "xoxr-", "xapp-"), "[A-Za-z0-9-]{10,255}"),
    _token("Google key", ("AIza",), rf"{_WORD}{{35}}"),
    _token("Google token", ("ya29.",), rf"{_WORD}{{20,1024}}"),
    _token("Stripe key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), "[A-Za-z0-9]{16,255}"),
    _token("Hugging Face token", ("hf_",), "[A-Za-z0-9]{30,255}"),
    _token("npm token", ("npm_",), "[A-Za-z0-9]{36}"),
    _token("PyPI token", ("pypi-AgE",), rf"{_WORD}{{50,1024}}"),
    _token("SendGrid key", ("SG.",), rf"{_WORD}{{22}}\.{_WORD}{{43}}"),
    _token("Groq key", ("gsk_",), "[A-Za-z0-9]{40,255}"),
    _token("xAI key", ("xai-",), "[A-Za-z0-9]{40,255}"),
    _token("Replicate token", ("r8_",), "[A-Za-z0-9]{37}"),
    _token("Databricks token", ("dapi",), "[a-f0-9]{32}(?:-\\d)?"),
    _token("DigitalOcean token", ("dop_v1_", "doo_v1_", "dor_v1_"), "[a-f0-9]{64}"),
    _token("Shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), "[a-fA-F0-9]{32}"),
    Detector(
        "Azure key",
        "keys",
        ("AccountKey=", "SharedAccessKey="),
        re.compile(r"(?:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{40,90}={0,2})"),
    ),
    Detector("Telegram token", "keys", (":AA",), re.compile(rf"(?<!\d)\d{{8,10}}:AA{_WORD}{{33}}(?!{_WORD})")),
    # It has no bounds, but it reads each word once: it looks for the three parts only at the beginning of a word.
    Detector(
        "JSON web token",
        "tokens",
        ("eyJ",),
        re.compile(
            rf"(?<!{_WORD})(?={_WORD}++\.{_WORD}{{8,}}+\.{_WORD}{{8}}){_WORD}*?"
            rf"(?P<secret>(?<![A-Za-z0-9_])eyJ{_WORD}{{8,}}+\.{_WORD}{{8,}}+\.{_WORD}{{8,}}+)"
        ),
    ),
    Detector(
        "bearer token",
        "tokens",
        ("earer ", "EARER "),
        re.compile(r"(?<![A-Za-z])(?i:bearer) {1,4}(?P<secret>[A-Za-z0-9._~+/-]{16,8192}={0,2})"),
    ),
    Detector(
        "password in a URL",
        "tokens",
        ("://",),
        re.compile(r"://[^\s/:@]{0,100}:(?P<secret>[^\s/@]{1,200})@"),
    ),
    Detector(
        "e-mail",
        "e-mail",
        ("@",),
        re.compile(r"@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])"),
        left="ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-",
    ),
    Detector(
        "card number",
        "cards",
        (),
        re.compile(
            r"[2-6](?<![\w.-][2-6])(?:\d{12,18}|\d{3}(?:([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|([ -])\d{6}\2\d{4,5}))"
            r"(?!\w|[.-]\d)",
            re.ASCII,
        ),
        _is_card,
    ),
)
GROUPS = tuple(dict.fromkeys(detector.group for detector in DETECTORS))


class Redactor:
    """
    A hook that puts `[hidden: KIND]` in the place of each secret, and counts them; it may be used by several threads.

    `groups` are some of GROUPS; all by default. It finds secrets by their form, so it finds no names, and no passwords
    that are words.
    """

    def __init__(self, *groups: str) -> None:
        unknown = [one for one in groups if one not in GROUPS]
        if unknown:
            raise InvalidInputError(f"there is no group {unknown[0]!r} of detectors: there are {', '.join(GROUPS)}")
        self._detectors = [one for one in DETECTORS if one.group in (groups or GROUPS)]
        self._counts: Counter[str] = Counter()
        self._lock = fork_safe_lock()

    def __repr__(self) -> str:
        return f"Redactor(counts={self.counts})"

    @property
    @synchronized
    def counts(self) -> dict[str, int]:
        """How many secrets were hidden so far, by kind."""
        return dict(self._counts)

    @synchronized
    def _count(self, kind: str, more: int) -> None:
        self._counts[kind] += more

    def __call__(self, text: str) -> str:
        for detector in self._detectors:
            if not detector.needles or any(needle in text for needle in detector.needles):
                text = self._hidden(detector, text)
        return text

    def _hidden(self, detector: Detector, text: str) -> str:
        pieces, end, mark = [], 0, f"[hidden: {detector.name}]"
        for found in detector.found.finditer(text):
            start, stop = found.span("secret" if "secret" in detector.found.groupindex else 0)
            if detector.left:
                head = text[max(end, start - LEFT_MAX) : start]
                before = len(head) - len(head.rstrip(detector.left))
                if not before:
                    continue
                start -= before
            if detector.is_real(found.group()):
                pieces += [text[end:start], mark]
                end = stop
        if pieces:
            self._count(detector.name, len(pieces) // 2)
        return "".join([*pieces, text[end:]]) if pieces else text
