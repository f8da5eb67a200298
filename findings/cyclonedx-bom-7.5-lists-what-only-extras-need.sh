#!/usr/bin/env bash
# cyclonedx-bom 7.5.0: in the list that `cyclonedx-py environment` makes, a package depends on what only its extras need, if that
# happens to be installed: uvloop 0.23.0 on aiohttp, which its extra "test" alone asks for, though nobody installed that extra.
# So the edges say more than pip's own: `pip show uvloop` names no requirement.
# Needs Python 3.11 or later, and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
python3 -m venv "$folder/tool"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check uvloop==0.23.0 aiohttp==3.14.5
"$folder/tool/bin/pip" install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0
"$folder/tool/bin/cyclonedx-py" environment --of JSON -o "$folder/bill.json" "$folder/venv/bin/python"
"$folder/venv/bin/python" - "$folder/bill.json" <<'PYTHON'
import importlib.metadata, json, sys

bill = json.load(open(sys.argv[1]))
edges = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
found = edges["uvloop==0.23.0"]
asked = [each for each in importlib.metadata.requires("uvloop") if each.startswith("aiohttp")]
print("uvloop depends on", found, "in the list; in its metadata:", asked)
sys.exit(not ("aiohttp==3.14.5" in found and all("extra ==" in each for each in asked)))
PYTHON
