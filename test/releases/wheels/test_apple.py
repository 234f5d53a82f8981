"""What the base's backend uses of Apple's, and the simulator does not know."""

from __future__ import annotations

from dataclasses import replace

from fork_tool.next_base.apple import (
    apple_findings,
    AppleNames,
    expanded,
    load_list,
    methods_in,
    properties_in,
    simulated_names,
    used_names,
)
from fork_tool.next_base.make import Made
from fork_tool.series.project import Project


def test_the_list_is_that_of_the_wheel(made: Made) -> None:
    used = used_names(made.facts)
    assert len(used.selectors) > 250 and "MPSGraph" in used.classes and "MTLCopyAllDevices" in used.functions
    assert made.lacking == load_list(made.places.apple_list).minus(AppleNames((), (), ()))
    assert [finding for finding in made.findings if "simulator" in finding] == []


def test_a_new_selector_class_and_function(made: Made, project: Project) -> None:
    framework = next(library for library in made.facts.imports if "/Metal.framework/" in library)
    more = [*made.facts.imports[framework], "_OBJC_CLASS_$_MTLPlanted", "_MTLPlantedFunction"]
    planted = replace(
        made.facts,
        selectors=[*made.facts.selectors, "plantWithDevice:seed:"],
        imports={**made.facts.imports, framework: more},
    )
    lacking = used_names(planted).minus(simulated_names(project.layout.simulator_source))
    findings = apple_findings(lacking, load_list(made.places.apple_list), "the list")
    assert len(findings) == 1
    assert "classes MTLPlanted; selectors plantWithDevice:seed:; functions MTLPlantedFunction" in findings[0]


def test_a_name_that_is_listed_for_nothing() -> None:
    kept = AppleNames((), ("gone:", "there:"), ())
    findings = apple_findings(AppleNames((), ("there:",), ()), kept, "the list")
    assert findings == [
        "the list lists what is no longer used, or what the simulator knows by now: selectors gone:; take it out"
    ]


def test_declarations_are_read() -> None:
    text = """
@property(readonly, getter=isOn) BOOL on;
@property(copy) void (^handler)(id, int);
@property(nonatomic) NSUInteger width, height;
- (void)dispatch:(void (^)(id<MTLCommandBuffer>, NSArray<id>*))block
         atIndex:(NSUInteger)index;
+ (instancetype)device;
- (MTLSize)size {
  return [self sizeWithScale:1];
}
"""
    assert list(methods_in(text)) == ["dispatch:atIndex:", "device", "size"]
    assert list(properties_in(text)) == ["isOn", "handler", "setHandler:", "width", "setWidth:", "height", "setHeight:"]


def test_methods_of_macros() -> None:
    text = "#define ALONG(method, word) \\\n  -(Tensor*)method##Tensor : (Tensor*)tensor word : (int)n\nALONG(sum, axis);\n"
    assert list(methods_in(expanded(text))) == ["sumTensor:axis:"]
