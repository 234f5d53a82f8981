"""What is not there stops with its name; nothing is skipped."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Inputs, Loaded
from mac_code.machine import Machine, Stopped
from mac_code.process import Process
from mac_code.runtime import Compiler
from mac_code.system import MacOS

SOURCE = """
#include <mach-o/dyld.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#define SHARED __attribute__((visibility("default")))
extern int sysctlbyname(const char *, void *, size_t *, void *, size_t);
extern char **environ;
SHARED int unknown_function(void) { return sysctlbyname("x", 0, 0, 0, 0) + 1; }
SHARED char *unknown_data(void) { return *environ; }
SHARED int null_call(int (*function)(void)) { return function() + 1; }
SHARED int twice(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  return pthread_mutex_lock(&lock) + pthread_mutex_lock(&lock) + 1;
}
SHARED int not_held(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  return pthread_mutex_unlock(&lock) + 1;
}
SHARED void ends(void) { abort(); }
SHARED int good(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  char *text = strdup("0123456789");
  memmove(text + 1, text, 9);
  return pthread_mutex_lock(&lock) + pthread_mutex_unlock(&lock) + strcmp(text, "0012345678") + 5;
}
"""
Call = Callable[[str], int]


@pytest.fixture(scope="module")
def call(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Calls a function of a small library."""
    folder: Path = tmp_path_factory.mktemp("small")
    source = folder / "small.c"
    source.write_text(SOURCE)
    compiler = Compiler(inputs.bench, folder)
    machine = Machine()
    macos = MacOS(machine)
    process = Process(machine, inputs.systems, inputs.files, macos.variables())
    macos.attach(process)
    image = process.load(compiler.link("libsmall.dylib", "@rpath/libsmall.dylib", [compiler.compile(source)]))
    return lambda name: machine.call(image.address(f"_{name}"), 0)


def test_a_function_that_is_there(call: Call) -> None:
    assert call("good") == 5


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unknown_function", "_sysctlbyname was called, which nobody has written, from libsmall.dylib _unknown_function+"),
        ("unknown_data", "called from "),
        ("null_call", " at 0x0, called from libsmall.dylib _null_call+"),
        ("twice", "a lock waits for itself, from libshim.dylib _pthread_mutex_lock+"),
        ("not_held", "a lock that is not held is given back, from libshim.dylib _pthread_mutex_unlock+"),
        ("ends", "abort was called, from libsmall.dylib _ends+"),
    ],
)
def test_what_stops(call: Call, loaded: Loaded, name: str, said: str) -> None:
    with pytest.raises(Stopped) as caught:
        call(name)
    assert said in str(caught.value)
    loaded.report.setdefault("planted_faults_seen", []).append(f"stops: {name}")
