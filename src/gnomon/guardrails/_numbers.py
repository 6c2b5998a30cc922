"""Numbers that belong to a person: cards, accounts, telephones, social security, machines.

Each function is asked about one place in a text, and gives where the number ends, or `None`. A form
alone is not believed where dates, prices and ids look the same: check digits, the lengths that
are in use, or a word before the number have to speak for it. None reads further than a fixed number
of characters, so that the cost grows with the text and no faster.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

__all__ = ["card", "iban", "ip", "may_begin", "phone", "ssn"]

# How all of them begin that need no word before them.
_LIKELY = re.compile(
    r"[0-9]{4}[ -][0-9]{4}|[0-9]{4}[ -][0-9]{6}|[0-9]{9}|[0-9]{3}[.-][0-9]|(?:1[ .-])?\([2-9][0-9]{2}\)"
    r"|1[ .-][2-9][0-9]{2}[.-]|\+[1-9]|00[ ./-]?[1-9]|[0-9]{1,3}\.[0-9]{1,3}\.[0-9]|[0-9A-Fa-f]{1,4}:"
)
_BETWEEN = " .:#=\"'"
_BEFORE = 40
"""How far before a number the word may begin that says what it is."""


def may_begin(text: str, at: int) -> bool:
    """Whether one of these may begin here: most numbers are none, and a text may be full of them."""
    return _LIKELY.match(text, at) is not None or _follows_a_word(text, at)


# --- cards and accounts -----------------------------------------------------------

_CARD_FORMS = (
    re.compile(r"[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?+(?![0-9])"),
    re.compile(r"3[0-9]{3}([ -])[0-9]{6}\1[0-9]{4,5}+(?![0-9])"),
    re.compile(r"[0-9]{14,19}+(?![0-9])"),
)
_ISSUED = re.compile(
    r"""4[0-9]{15}(?:[0-9]{3})?             # Visa
    | 5[1-5][0-9]{14}                       # Mastercard
    | 2(?:22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720)[0-9]{12}
    | 3[47][0-9]{13}                        # American Express
    | 3(?:0[0-59]|[689][0-9])[0-9]{11}      # Diners Club
    | 35[0-9]{14}                           # JCB
    | 6[0-9]{15}(?:[0-9]{3})?               # Discover, UnionPay, Maestro
    | 5[0678][0-9]{14}(?:[0-9]{3})?         # Maestro
    """,
    re.VERBOSE,
)


def card(text: str, at: int) -> int | None:
    """A payment card: a number that an issuer gives out, with the check digit of Luhn."""
    for form in _CARD_FORMS:
        found = form.match(text, at)
        if found and _is_card(_digits(found[0])):
            return found.end()
    return None


def _is_card(digits: str) -> bool:
    odd, even = digits[-1::-2], digits[-2::-2]
    total = sum(map(int, odd)) + sum(sum(divmod(2 * int(digit), 10)) for digit in even)
    return _ISSUED.fullmatch(digits) is not None and total % 10 == 0


_IBAN = re.compile(r"([A-Za-z]{2})[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,29}+")
_IBAN_COUNTRIES = {  # as SWIFT has them in its register
    15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
_IBAN_SIZE = {country: size for size, names in _IBAN_COUNTRIES.items() for country in names.split()}


def iban(text: str, at: int) -> int | None:
    """A bank account: as long as those of its country are, with the right remainder."""
    found = _IBAN.match(text, at)
    size = _IBAN_SIZE.get(found[1].upper(), 0) if found else 0
    if found is None or not size:
        return None
    places = [place for place in range(*found.span()) if text[place].isalnum()][:size]
    end = places[-1] + 1
    whole = len(places) == size and not text[end : end + 1].isalnum()
    return end if whole and _remainder("".join(text[place] for place in places)) == 1 else None


def _remainder(account: str) -> int:
    turned = account[4:] + account[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97


# --- social security --------------------------------------------------------------

_SSN = re.compile(r"(?!000|666|9)[0-9]{3}([ -]?)(?!00)[0-9]{2}\1(?!0000)[0-9]{4}(?![\w-])")
_SSN_WORD = re.compile(r"(?i)(?:ssn|social security(?: number| no\.?)?)(?: is)?[ :#=\"']{1,4}$")


def ssn(text: str, at: int) -> int | None:
    """A number of the American social security, by its hyphens or by the word before it."""
    found = _SSN.match(text, at)
    if found is None or not (found[1] == "-" or _follows(_SSN_WORD, text, at)):
        return None
    return None if _continues(text, at) else found.end()


# --- telephones -------------------------------------------------------------------

_ABROAD = re.compile(r"(?:\+|00[ ./-]?)(?=[1-9])[0-9](?:[ ./()-]{0,3}[0-9]){7,14}+(?![0-9])")
_AMERICAN = re.compile(
    r"(?:1[ .-])?+(?:\([2-9][0-9]{2}\) ?[0-9]{3}[ .-][0-9]{4}"
    r"|[2-9][0-9]{2}([.-])[0-9]{3}\1[0-9]{4})(?![\w-])"
)
_ANY = re.compile(r"\(?[0-9](?:[ ./()-]{0,3}[0-9]){6,14}+(?![\w-])")
_DATE = re.compile(
    r"(?:19|20)[0-9]{2}[./ -][01]?[0-9][./ -][0-3]?[0-9]|[0-3]?[0-9][./-][01]?[0-9][./-](?:19|20)[0-9]{2}"
)
_PHONE_WORD = re.compile(
    r"(?i)(?<![^\W_])(?:telephone|telefon|téléphone|teléfono|phone|tel|mobile|mobil|móvil|handy|cell|fax"
    r"|whatsapp|sms|call)(?: number| no\.?| nr\.?| me| us)?(?: at| on| is)?[ .:#=\"']{1,4}$"
)


def phone(text: str, at: int) -> int | None:
    """A telephone number: with its country, in the American way, or after a word that says what it is."""
    abroad = _ABROAD.match(text, at)
    if abroad and _is_abroad(abroad[0]) and not _is_added(text, at):
        return abroad.end()
    found = _AMERICAN.match(text, at)
    if found and not _continues(text, at):
        return found.end()
    found = _ANY.match(text, at) if _follows(_PHONE_WORD, text, at) else None
    return found.end() if found and not _DATE.match(found[0]) else None


def _is_abroad(number: str) -> bool:
    digits = _digits(number).removeprefix("00")
    is_long_enough = len(digits) == 11 if digits.startswith("1") else len(digits) <= 15
    return is_long_enough and not number.isdigit()


def _is_added(text: str, at: int) -> bool:
    """Whether it is a piece of something longer: `1+23456789`, or four digits of an account."""
    before = text[max(at - 2, 0) : at]
    return before[-1:].isalnum() or (text[at] == "0" and before[:1].isdigit())


# --- machines ---------------------------------------------------------------------

_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w-])(?!\.[0-9])")
_IPV6 = re.compile(
    r"(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{0,4})(?![\w:])(?!\.[0-9])"
)


def ip(text: str, at: int) -> int | None:
    """An address of the internet, old or new, but for those that mean this machine."""
    if text[at - 1 : at] == "." and at > 0:
        return None
    for form, kind in ((_IPV4, IPv4Address), (_IPV6, IPv6Address)):
        found = form.match(text, at)
        if found and _is_address(found[0], kind):
            return found.end()
    return None


def _is_address(text: str, kind: type[IPv4Address | IPv6Address]) -> bool:
    try:
        address = kind(text)
    except AddressValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


# --- around a number --------------------------------------------------------------


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _follows(word: re.Pattern[str], text: str, at: int) -> bool:
    return _follows_a_word(text, at) and word.search(text[max(at - _BEFORE, 0) : at]) is not None


def _follows_a_word(text: str, at: int) -> bool:
    return text[max(at - 5, 0) : at].rstrip(_BETWEEN)[-1:].isalpha()


def _continues(text: str, at: int) -> bool:
    """Whether what begins here is the end of a longer number or name: `AB-555-123-4567`."""
    return at > 1 and text[at - 1] in "-./" and text[at - 2].isalnum()
