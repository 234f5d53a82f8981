"""What the release's backend uses of Apple's, and the simulator does not know."""

from dataclasses import replace

from fork_tool.releases.apple import apple_findings, KINDS, lacking_names, load_list, used_names
from fork_tool.releases.make import Made, SIMULATOR
from fork_tool.series.project import Project


def test_the_list_is_that_of_the_wheel(made: Made) -> None:
    used = used_names(made.facts)
    assert len(used["selectors"]) > 250 and "MPSGraph" in used["classes"] and "MTLCopyAllDevices" in used["functions"]
    assert made.lacking == load_list(made.places.apple_list)
    assert [finding for finding in made.findings if "simulator" in finding] == []


def test_a_new_selector_class_and_function(made: Made, project: Project) -> None:
    framework = next(library for library in made.facts.imports if "/Metal.framework/" in library)
    more = [*made.facts.imports[framework], "_OBJC_CLASS_$_MTLPlanted", "_MTLPlantedFunction"]
    planted = replace(
        made.facts,
        selectors=[*made.facts.selectors, "plantWithDevice:seed:"],
        imports={**made.facts.imports, framework: more},
    )
    lacking = lacking_names(used_names(planted), project.layout.simulator_build / SIMULATOR)
    (finding,) = apple_findings(lacking, load_list(made.places.apple_list), "the list")
    assert "classes MTLPlanted; selectors plantWithDevice:seed:; functions MTLPlantedFunction" in finding


def test_a_name_that_is_listed_for_nothing() -> None:
    none = {kind: set[str]() for kind in KINDS}
    kept, lacking = none | {"selectors": {"gone:", "there:"}}, none | {"selectors": {"there:"}}
    assert apple_findings(lacking, kept, "the list") == [
        "the list lists what is no longer used, or what the simulator knows by now: selectors gone:; take it out"
    ]
