"""Texts that look like personal data. This finds what has a form of its own; it cannot find names or addresses."""

import re
from collections.abc import Iterator

_EMAIL = re.compile(r"[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*\.[A-Za-z]{2,24}\b")
_PHONE = re.compile(r"(?<![\w+])\+\d{1,3}(?:[ ./()-]{0,2}\d){6,13}(?!\d)")
_DIGITS = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_LUHN_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
_IBAN_MODULUS = 97


def kinds_of_personal_data(text: str) -> Iterator[str]:
    """Yield the kinds of personal data that a text seems to contain, such as `e-mail address`."""
    if _EMAIL.search(text):
        yield "e-mail address"
    if _PHONE.search(text):
        yield "phone number"
    if any(_is_card(found[0]) for found in _DIGITS.finditer(text)):
        yield "card number"
    if any(_is_iban(found[0]) for found in _IBAN.finditer(text)):
        yield "IBAN"


def _is_card(text: str) -> bool:
    """Return True if the last digit is the check digit of the others (Luhn)."""
    digits = [int(each) for each in text if each.isdigit()][::-1]
    return sum(digits[::2], start=sum(_LUHN_DOUBLED[each] for each in digits[1::2])) % 10 == 0


def _is_iban(text: str) -> bool:
    """Return True if the two digits after the country are the check digits of the others (ISO 7064)."""
    plain = text.replace(" ", "")
    return int("".join(str(int(each, 36)) for each in plain[4:] + plain[:4])) % _IBAN_MODULUS == 1
