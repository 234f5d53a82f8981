"""What is not there stops with its name; nothing is skipped."""

from pathlib import Path

import pytest
from conftest import Inputs, Loaded

from mac_code.machine import Stopped
from mac_code.runtime import Compiler

SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <sys/sysctl.h>
#define SHARED __attribute__((visibility("default")))
extern char **environ;
SHARED int unknown_function(void) { return sysctlbyname("x", 0, 0, 0, 0) + 1; }
SHARED char *unknown_data(void) { return *environ; }
SHARED int null_call(int (*function)(void)) { return function() + 1; }
SHARED void ends(void) { abort(); }
SHARED int good(void) {
  char *text = strdup("0123456789");
  memmove(text + 1, text, 9);
  return strcmp(text, "0012345678") + 5;
}
"""


def test_what_stops(inputs: Inputs, loaded: Loaded, tmp_path: Path) -> None:
    source = tmp_path / "small.c"
    source.write_text(SOURCE)
    compiler = Compiler(inputs.bench, tmp_path)
    process = inputs.new_process()
    image = process.load(compiler.link("libsmall.dylib", [compiler.compile(source)]))
    assert process.machine.call(image.address("_good")) == 5
    place = "from libsmall.dylib _"
    for name, said in (
        ("unknown_function", f"_sysctlbyname was called, which nobody has written, {place}unknown_function+"),
        ("unknown_data", "Invalid memory read (UC_ERR_READ_UNMAPPED) of _environ at libsmall.dylib _unknown_data+"),
        ("null_call", f"0x0 was called, which nobody has written, {place}null_call+"),
        ("ends", f"abort was called, {place}ends+"),
    ):
        with pytest.raises(Stopped) as caught:
            process.machine.call(image.address(f"_{name}"), 0)
        assert said in str(caught.value)
        loaded.seen(f"stops: {name}")
