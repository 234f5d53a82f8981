"""The forms of `.github/ISSUE_TEMPLATE`: what GitHub refuses, or shows as nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fork_tool.paths import own_layout

FOLDER = own_layout().root / ".github" / "ISSUE_TEMPLATE"
FORMS = sorted(path for path in FOLDER.glob("*.yml") if path.name != "config.yml")
KINDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def faults(form: Any) -> list[str]:
    """What is wrong with a form, by GitHub's documented rules."""
    found = [f"no {key}" for key in ("name", "description", "body") if not form.get(key)]
    found += [f"unknown {key}" for key in set(form) - {"name", "description", "body", "labels", "title", "assignees"}]
    labels = []
    for element in form.get("body") or []:
        attributes = element.get("attributes") or {}
        if element.get("type") not in KINDS:
            found.append(f"no kind: {element.get('type')}")
        elif element["type"] != "markdown":
            labels.append(attributes.get("label"))
            found += [] if attributes.get("label") else ["no label"]
            found += [] if element.get("id") else ["no id"]
        if element.get("type") == "dropdown" and not attributes.get("options"):
            found.append("no options")
    ids = [element["id"] for element in form.get("body") or [] if "id" in element]
    for what, names in (("label", labels), ("id", ids)):
        found += [f"{what} twice: {name}" for name in set(names) if names.count(name) > 1]
    return found


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms(path: Path) -> None:
    assert faults(yaml.safe_load(path.read_text())) == []


def test_faults_are_found() -> None:
    assert len(FORMS) == 3
    good = yaml.safe_load(FORMS[0].read_text())
    body = good["body"]
    assert faults({**good, "name": ""}) == ["no name"]
    assert faults({**good, "bodies": []}) == ["unknown bodies"]
    assert sorted(faults({**good, "body": [*body, body[0]]})) == [
        f"id twice: {body[0]['id']}",
        f"label twice: {body[0]['attributes']['label']}",
    ]
    assert faults({**good, "body": [{"type": "text"}]}) == ["no kind: text"]
    assert faults({**good, "body": [{"type": "dropdown", "id": "a", "attributes": {"label": "A"}}]}) == ["no options"]


def test_links_of_the_chooser() -> None:
    links = yaml.safe_load((FOLDER / "config.yml").read_text())["contact_links"]
    assert all(set(link) == {"name", "url", "about"} for link in links)
