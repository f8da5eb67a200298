"""What is released: the packages, their dependencies, the image's, and the workflows that do it."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from email.message import Message
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from readme_renderer import markdown

from tests.support.made_once import made_once
from tests.support.servers import ROOT
from ttlproxy import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Each file of the repository's settings, and the schema that it follows.
SCHEMAS = dict.fromkeys(WORKFLOWS, "github-workflows") | {
    ROOT / ".github" / "dependabot.yml": "dependabot",
    **dict.fromkeys((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"), "github-issue-forms"),
}
SETUP: dict[str, Any] = runpy.run_path(str(ROOT / "setup.py"))
# Where a release's version stands, besides ttlproxy/__init__.py.
VERSIONS = {
    "Dockerfile": r"^ARG VERSION=(.*)$",
    "deploy/helm/ttlproxy/Chart.yaml": r"^(?:v|appV)ersion: (.*)$",
    **{
        str(path.relative_to(ROOT)): r"newTag: (.*)$"
        for path in ROOT.glob("deploy/kubernetes/**/kustomization.yaml")
        if re.search(r"newTag: \d", path.read_text())
    },
}
PINNED = re.compile(
    r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ]+)[^\n]*\\\n(?: +--hash=sha256:[0-9a-f]{64}.*\n)+",
    re.MULTILINE,
)


def _run(*words: str | Path) -> str:
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _locked() -> dict[str, Version]:
    """What the image installs."""
    return {each["name"]: Version(each["version"]) for each in _pinned()}


def _pinned() -> Iterator[re.Match[str]]:
    return PINNED.finditer((ROOT / "requirements.lock").read_text())


def _is_for(marker: Marker | None, python: str) -> bool:
    """`python`: a version such as 3.11.0"""
    minor = python.rpartition(".")[0]
    versions = {"python_full_version": python, "python_version": minor, "extra": ""}
    return marker is None or marker.evaluate(versions)


def test_no_new_major_version_comes_by_itself_and_the_image_has_what_is_allowed() -> None:
    locked = _locked()
    for text in PROJECT["project"]["dependencies"]:
        required = Requirement(text)
        assert any(each.operator == "<" for each in required.specifier), text
        assert locked[required.name] in required.specifier, "make lock"
    (backend,) = PROJECT["build-system"]["requires"]
    assert "==" in backend


def test_the_image_installs_nothing_that_is_not_pinned() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    installs = [line for line in text.splitlines() if "pip " in line]
    assert len(installs) == 2
    assert "--require-hashes -r requirements.lock" in " ".join(installs[0].split())
    assert "--no-deps ." in installs[1]
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert len([line for line in lines if "==" in line]) == len(_locked()), "each has hashes"


@pytest.mark.parametrize("python", ["3.11.0", "3.11.3", "3.12.0", "3.13.0", "3.14.0"])
def test_the_pinned_are_enough_for_each_python(python: str) -> None:
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    pinned = [Requirement(each[0].partition("\\")[0]) for each in _pinned()]
    there = {each.name for each in pinned if _is_for(each.marker, python)}
    for name in there:
        with suppress(PackageNotFoundError):  # another Python's
            needs = map(Requirement, requires(name) or ())
            names = {canonicalize_name(each.name) for each in needs if _is_for(each.marker, python)}
            assert names <= there, name


@pytest.mark.parametrize("told", ["sha256:" + "0a" * 32, ""], ids=["told", "not told"])
def test_the_base_gets_the_digest_that_its_registry_tells(tmp_path: Path, told: str) -> None:
    for name in ("Makefile", "Dockerfile"):
        shutil.copy(ROOT / name, tmp_path)
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho {told}\n")
    docker.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["make", "--directory", str(tmp_path), "base-digest"]
    before = (ROOT / "Dockerfile").read_text()
    for _ in range(2):  # the second time the name has a digest already
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        after = (tmp_path / "Dockerfile").read_text()
        if told:
            assert done.returncode == 0, done.stderr
            named = re.sub(r"^(FROM [^@ ]+)\S* AS base", rf"\1@{told} AS base", before, flags=re.M)
            assert after == named != before
        else:
            assert (done.returncode != 0, after) == (True, before)
            assert "docker buildx told no digest of docker.io/library/python:" in done.stderr


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make package` makes of a copy, for all workers."""
    left_out = shutil.ignore_patterns(".*", "build", "dist", "tests", "__pycache__", "*.egg-info")

    def make(folder: Path) -> None:
        shutil.copytree(ROOT, folder, ignore=left_out, dirs_exist_ok=True)
        _run("make", "--silent", "--directory", folder, f"PYTHON={sys.executable}", "package")

    return made_once(tmp_path_factory, "packages", make) / "dist"


def _wheel(packages: Path) -> Path:
    (wheel,) = packages.glob("*.whl")
    return wheel


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_wheel_runs_with_what_is_pinned_and_nothing_else(
    packages: Path, tmp_path: Path
) -> None:
    wheel = _wheel(packages)
    names = zipfile.ZipFile(wheel).namelist()
    for path in sorted((ROOT / "ttlproxy").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(ROOT)) in names
    assert all(name.startswith(("ttlproxy/", "ttlproxy-")) for name in names)
    shared = {path.name for folder in ("man", "completions") for path in (ROOT / folder).iterdir()}
    assert shared == {Path(name).name for name in names if "/data/share/" in name}
    empty = tmp_path / "empty"
    _run(sys.executable, "-m", "venv", "--without-pip", empty)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    install = (*pip, "--python", empty / "bin" / "python", "install", "--quiet", "--no-compile")
    _run(*install, "--require-hashes", "-r", "requirements.lock")
    _run(*install, "--no-deps", "--no-index", wheel)
    assert _run(empty / "bin" / "ttlproxy", "--version") == f"ttlproxy {__version__}\n"


def _metadata(packages: Path) -> Message:
    text = zipfile.ZipFile(_wheel(packages)).read(f"ttlproxy-{__version__}.dist-info/METADATA")
    return Parser().parsestr(text.decode())


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_packages_say_what_they_are_and_where_they_come_from(packages: Path) -> None:
    found = _metadata(packages)
    assert (found["License-Expression"], found["License-File"]) == ("MIT", "LICENSE")
    assert found["Author"]
    assert found["Summary"]
    assert found["Description-Content-Type"] == "text/markdown"
    assert found.get_payload() == SETUP["readme"]((ROOT / "README.md").read_text())
    urls = found.get_all("Project-URL", [])
    assert urls == [f"{label}, {url}" for label, url in SETUP["addresses"]().items()]
    supported = [each for each in found.get_all("Classifier", []) if "Python :: 3.1" in each]
    built = re.findall(r"cp3(\d+)-", PROJECT["tool"]["cibuildwheel"]["build"])
    assert [each.rpartition(".")[2] for each in supported] == built


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_list_of_what_is_in_the_image_has_licences_and_what_needs_what(packages: Path) -> None:
    bill = json.loads((packages / "ttlproxy.cdx.json").read_text())
    ours = bill["metadata"]["component"]
    assert (ours["name"], ours["version"]) == ("ttlproxy", __version__)
    parts = {canonicalize_name(each["name"]): each for each in bill["components"]}
    running = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    pinned = [Requirement(each[0].partition("\\")[0]) for each in _pinned()]
    assert parts.keys() == {each.name for each in pinned if _is_for(each.marker, running)}
    for name, each in parts.items():
        assert each["version"] == str(_locked()[name])
        assert each["licenses"], name
        assert each["purl"], name
    needs = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    names = {each["bom-ref"]: name for name, each in parts.items()}
    direct = {names[ref] for ref in needs[ours["bom-ref"]]}
    assert direct == {Requirement(each).name for each in PROJECT["project"]["dependencies"]}
    reached = set(needs[ours["bom-ref"]])
    for _ in parts:
        reached |= {ref for one in reached for ref in needs[one]}
    assert reached == names.keys()


def test_an_index_shows_the_readme_with_links_that_lead_somewhere() -> None:
    text = SETUP["readme"]((ROOT / "README.md").read_text())
    shown = markdown.render(text)
    assert shown
    assert "mermaid" not in shown
    links = re.findall(r'(?:href|src)="([^"]*)"', shown)
    start = rf"{re.escape(SETUP['ADDRESS'])}/(?:blob|raw)/v{re.escape(__version__)}/([^#]*)"
    ours = [found[1] for link in links if (found := re.match(start, link))]
    assert len(ours) > 20
    assert [path for path in ours if not (ROOT / path).exists()] == []
    assert [link for link in links if not re.match(r"https?://|#", link)] == []


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[a](docs/a.md#b) and [c](#d)", "[a](A/blob/V/docs/a.md#b) and [c](#d)"),
        ("![p](docs/p.png)", "![p](A/raw/V/docs/p.png)"),
        ("[![p](p.svg)](docs/)", "[![p](A/raw/V/p.svg)](A/blob/V/docs/)"),
        ("[w](https://w.example) [m](mailto:m)", "[w](https://w.example) [m](mailto:m)"),
        ("one\n\n```mermaid\nflowchart\n```\n\ntwo\n", "one\n\ntwo\n"),
    ],
)
def test_links_and_diagrams_of_the_readme_on_an_index(written: str, shown: str) -> None:
    expected = shown.replace("A/", f"{SETUP['ADDRESS']}/").replace("/V/", f"/v{__version__}/")
    assert SETUP["readme"](written) == expected


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: str(path.relative_to(ROOT)))
def test_settings_of_the_repository_are_as_their_schemas_say(path: Path) -> None:
    schema = ("--builtin-schema", f"vendor.{SCHEMAS[path]}")
    _run(sys.executable, "-m", "check_jsonschema", *schema, path)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_pinned_by_its_commit(path: Path) -> None:
    used = re.findall(r"^[ -]*uses: (.*)$", path.read_text(), re.MULTILINE)
    assert used
    pinned = re.compile(r"[\w.-]+(?:/[\w.-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+(?:,.*)?")
    assert [action for action in used if not pinned.fullmatch(action)] == []


def test_a_release_is_of_the_version_and_the_repository_that_the_files_name() -> None:
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    (expression,) = re.findall(r"sed -n '(.*?)' ttlproxy", release)
    assert _run("sed", "-n", expression, "ttlproxy/__init__.py") == f"{__version__}\n"
    for name, pattern in VERSIONS.items():
        found = set(re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE))
        assert found == {__version__}, name
    (line,) = re.findall(r'--line-regexp "(.*)" setup.py', release)
    expected = line.replace('\\"', '"').replace(
        "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY", SETUP["ADDRESS"]
    )
    assert expected in (ROOT / "setup.py").read_text().splitlines()
