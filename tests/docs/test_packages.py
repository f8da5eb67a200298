"""What is released: the packages, their dependencies, the image's, and the workflows that do it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.servers import ROOT
from ttlproxy import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
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


@pytest.mark.slow
def test_the_wheel_runs_with_what_is_pinned_and_nothing_else(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    _run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ".")
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for path in sorted((ROOT / "ttlproxy").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(ROOT)) in names
    assert all(name.startswith(("ttlproxy/", "ttlproxy-")) for name in names)
    pages = {path.name for path in (ROOT / "man").iterdir()}
    assert pages == {Path(name).name for name in names if "/data/share/man/man1/" in name}
    empty = tmp_path / "empty"
    _run(sys.executable, "-m", "venv", "--without-pip", empty)
    install = (*pip, "--python", empty / "bin" / "python", "install", "--quiet", "--no-compile")
    _run(*install, "--require-hashes", "-r", "requirements.lock")
    _run(*install, "--no-deps", "--no-index", wheel)
    assert _run(empty / "bin" / "ttlproxy", "--version") == f"ttlproxy {__version__}\n"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_as_its_schema_says(path: Path) -> None:
    schema = ("--builtin-schema", "vendor.github-workflows")
    _run(sys.executable, "-m", "check_jsonschema", *schema, path)


def test_updates_are_configured_as_their_schema_says() -> None:
    file = ROOT / ".github" / "dependabot.yml"
    _run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.dependabot", file)


def test_a_release_is_of_the_version_that_its_tag_names() -> None:
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    (expression,) = re.findall(r"sed -n '(.*?)' ttlproxy", release)
    assert _run("sed", "-n", expression, "ttlproxy/__init__.py") == f"{__version__}\n"
    assert f"ARG VERSION={__version__}\n" in (ROOT / "Dockerfile").read_text()
