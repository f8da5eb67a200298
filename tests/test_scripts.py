"""The text of scripts as Redis gets it."""

import re

import pytest

from ttlproxy.keys import DEFAULT_PREFIX
from ttlproxy.scripts import Scripts, Traits

SCRIPTS = Scripts(DEFAULT_PREFIX)
ALL_TRAITS = [Traits(), Traits(field_ttls=True, subkeys=True, events="hszlKESTIV")]


@pytest.mark.parametrize("traits", ALL_TRAITS)
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_makes_no_function_that_it_does_not_use(name: str, traits: Traits) -> None:
    SCRIPTS.suit(traits)
    text = SCRIPTS[name].text.decode()
    for function in re.findall(r"^local function (\w+)", text, re.MULTILINE):
        assert len(re.findall(rf"\b{function}\b", text)) > 1, function


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_is_sent_without_its_comments(name: str) -> None:
    assert b"\n--" not in SCRIPTS[name].text
