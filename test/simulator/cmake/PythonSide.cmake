# What the Python package needs to know, and the hook that lets any interpreter
# of the environment find it.

set(bindings "${CMAKE_BINARY_DIR}/mps_bindings${EXTENSION_SUFFIX}")
if(FRAMEWORKS_ONLY)
  set(bindings "")
endif()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/mps_simulator.json @ONLY CONTENT [=[
{
  "library": "@CMAKE_BINARY_DIR@/libmps_simulator.so",
  "bindings": "@bindings@",
  "checkout": "@TORCH_CHECKOUT@",
  "wheel": "@WHEEL@",
  "python": "@PYTHON@",
  "sanitizer": "@SANITIZER@",
  "sanitizer_runtime": "@SANITIZER_RUNTIME@"
}
]=])

# First line: `import mps_simulator` and `python -m mps_simulator` work.
# Second line: with MPS_SIMULATOR=1, `import torch` brings the device.
file(CONFIGURE OUTPUT ${SITE_PACKAGES}/mps_simulator.pth @ONLY CONTENT [=[
@CMAKE_CURRENT_SOURCE_DIR@
import os; os.environ.get("MPS_SIMULATOR") == "1" and __import__("mps_simulator").install()
]=])

add_custom_target(changed_modules ALL
  COMMAND ${PYTHON} -I ${CMAKE_CURRENT_SOURCE_DIR}/mps_simulator/changed_modules.py
    ${TORCH_CHECKOUT} ${WHEEL} ${CMAKE_BINARY_DIR}/changed_modules.json
  COMMENT "Listing Python modules that the series changes"
  VERBATIM)
