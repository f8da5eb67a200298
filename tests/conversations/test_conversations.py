"""What is said in the files of this folder is answered so. Each begins with what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conversations.files import Conversation, conversations
from tests.support.containers import AnyServer
from tests.support.conversation import talking
from tests.support.servers import Proxy


@conversations(Path(__file__).parent)
def test_replies_are_those_of_the_conversation(
    request: pytest.FixtureRequest, proxy: Proxy, server: AnyServer, said: Conversation
) -> None:
    for name in said.fixtures:
        request.getfixturevalue(name)
    with talking(proxy, server, said.way) as talk:
        talk(said.text)
