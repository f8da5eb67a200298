"""docs/clients.md: the files of each section are written to a folder, and its example is run there.

A file is a block with a title. What an example prints is behind the lines that print it.
"""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from tests.docs.programs import GO, SLOW, compare, fetch, java, javac, run, tool
from tests.support.made_once import made_once
from tests.support.npm import CLIENTS
from tests.support.servers import ROOT, Proxy
from ttlproxy.commands.router import VIRTUALS

pytestmark = [
    *(pytest.mark.long, pytest.mark.slow, pytest.mark.any_server),
    pytest.mark.timeout(SLOW),
]

PAGE: Final = ROOT / "docs" / "clients.md"
_FILE: Final = re.compile(r'^```\w+ title="([^"\n]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_PORT: Final = re.compile(r"\b6380\b")
# What must not compile: if it does, its comment is an error of TypeScript's.
_WRONG: Final = {
    "ioredis": """\
import { Redis } from "ioredis";
import { withTtl } from "./ttl.js";
export async function wrong(redis: Redis) {
  withTtl(redis);
  // @ts-expect-error
  await redis.sexpiremember("s", "m");
  // @ts-expect-error
  const reply: string = await redis.sttlmember("s", "m");
  // @ts-expect-error
  redis.pipeline().sttlfield("s", "m");
}
""",
    "node-redis": """\
import { createClient } from "redis";
import { modules } from "./ttl.js";
export async function wrong() {
  const client = createClient({ modules });
  // @ts-expect-error
  await client.setMembers.expire("s", 60, ["m"]);
  // @ts-expect-error
  const reply: string = await client.queues.lease("tasks", "busy", 3000);
}
""",
}
# Prints the commands that the file for ioredis adds.
_NAMES: Final = """
import { Redis } from "ioredis";
import { withTtl } from "./out/ttl.js";
const redis = withTtl(new Redis({ lazyConnect: true }));
const own = Redis.prototype.getBuiltinCommands.call(redis);
console.log(JSON.stringify({ added: [...redis.addedBuiltinSet], own }));
"""
_TYPESCRIPT: Final = {
    "strict": True,
    "module": "nodenext",
    "target": "es2022",
    "types": ["node"],
    "skipLibCheck": True,
    "outDir": "out",
}


@cache
def _files(section: str) -> dict[str, str]:
    """The text of each file in a section, the example last."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return dict(_FILE.findall(text))


def _write(section: str, folder: Path, port: int) -> str:
    """Writes the files for a proxy's port, and returns the example."""
    folder.mkdir(exist_ok=True)
    for name, text in _files(section).items():
        (folder / name).write_text(_PORT.sub(str(port), text))
    return [*_files(section).values()][-1]


@pytest.fixture(scope="module")
def typescript(ioredis: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the clients for Node, and the compiler, for all workers."""
    packages = ("typescript@5", "@types/node@20")
    words = ("install", "--no-save", "--silent", "--no-audit", "--no-fund", "--prefer-offline")

    def make(folder: Path) -> None:
        shutil.copytree(ioredis, folder, symlinks=True, dirs_exist_ok=True)
        fetch("typescript", [tool("npm"), *words, *packages], folder)

    return made_once(tmp_path_factory, "typescript", make)


@pytest.mark.parametrize("client", ["ioredis", "node-redis"])
def test_in_typescript(client: str, typescript: Path, proxy: Proxy) -> None:
    folder = typescript / client
    example = _write(client, folder, proxy.port)
    (folder / "wrong.ts").write_text(_WRONG[client])
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": _TYPESCRIPT}))
    compiler = typescript / "node_modules" / "typescript" / "bin" / "tsc"
    run([tool("node"), str(compiler), "--project", "."], folder)
    compare(example, run([tool("node"), "out/example.js"], folder))
    if client == "ioredis":
        (folder / "names.mjs").write_text(_NAMES)
        names = json.loads(run([tool("node"), "names.mjs"], folder))
        ours = {name.lower() for name, row in VIRTUALS.items() if not row.dialect}
        assert {*names["added"]} == ours - {*names["own"]}


def test_in_go(tmp_path: Path, proxy: Proxy) -> None:
    example = _write("go-redis", tmp_path, proxy.port)
    go = tool("go")
    run([go, "mod", "init", "example"], tmp_path, env=GO)
    fetch("go-redis", [go, "get", "github.com/redis/go-redis/v9"], tmp_path, GO)
    compare(example, run([go, "run", "."], tmp_path, env=GO))


@pytest.mark.parametrize("client", ["Jedis", "Lettuce"])
def test_in_java(client: str, java_clients: Path, proxy: Proxy) -> None:
    folder = java_clients / client
    example = _write(client, folder, proxy.port)
    run([*javac(), "-cp", "../lib/*", *_files(client)], folder)
    compare(example, run([*java(), "-cp", "../lib/*:.", "Example"], folder))


@pytest.mark.parametrize("section", ["node-redis", "go-redis", "Jedis"])
def test_names_that_are_put_together_are_commands(section: str) -> None:
    text = "".join(_files(section).values())
    types = re.findall(r'"([HSZL])", "([A-Z]+)"', text)
    verbs = re.findall(r'["}](P?(?:EXPIRE|EXPIREAT|TTL|PERSIST))["$]', text)
    assert (len(types), len(verbs)) == (4, 4)
    for letter, noun in types:
        assert {f"{letter}{verb}{noun}" for verb in verbs} <= VIRTUALS.keys()


def test_the_page_has_the_versions_that_the_tests_use() -> None:
    tried = dict(re.findall(r"^\| (\S+)[^|]* \| ([\d.]+)", PAGE.read_text(), re.MULTILINE))
    pom = dict(
        re.findall(r"<artifactId>(.*)</a.*>\s*<version>(.*)<", (CLIENTS / "pom.xml").read_text())
    )
    assert tried["Jedis"] == pom["jedis"]
    assert f"{tried['Lettuce']}.RELEASE" == pom["lettuce-core"]
    packages = json.loads((CLIENTS / "package.json").read_text())["dependencies"]
    names = {"ioredis": "ioredis", "redis": "node-redis", "bullmq": "BullMQ"}
    assert [packages[name] for name in names] == [f"^{tried[it][0]}" for it in names.values()]
    assert (tried["redis-py"][0], tried["Celery"][0]) == (version("redis")[0], version("celery")[0])
