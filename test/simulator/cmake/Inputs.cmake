# Checks what the build was given and asks the wheel what it is.

foreach(input TORCH_CHECKOUT PYTHON OBJFW_ROOT)
  if(NOT ${input} OR NOT EXISTS "${${input}}")
    message(FATAL_ERROR "${input} is \"${${input}}\", which does not exist. `make simulator` passes the right one.")
  endif()
endforeach()
if(NOT EXISTS ${TORCH_CHECKOUT}/aten/src/ATen/mps/MPSStream.mm)
  message(FATAL_ERROR "${TORCH_CHECKOUT} holds no MPS backend: run `make apply`.")
endif()

# -I: a directory called torch in the current directory must not be found.
execute_process(
  COMMAND ${PYTHON} -I -c
    "import importlib.util as u, sysconfig as s; print(u.find_spec('torch').submodule_search_locations[0], s.get_path('purelib'), s.get_path('include'), s.get_config_var('EXT_SUFFIX'), sep=';')"
  OUTPUT_VARIABLE python_answer
  OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE python_result)
if(NOT python_result EQUAL 0)
  message(FATAL_ERROR "${PYTHON} has no torch: run `make setup`.")
endif()
list(GET python_answer 0 WHEEL)
list(GET python_answer 1 SITE_PACKAGES)
list(GET python_answer 2 PYTHON_INCLUDE)
list(GET python_answer 3 EXTENSION_SUFFIX)

# The wheel's own CMake package knows its string ABI without importing torch.
file(STRINGS ${WHEEL}/share/cmake/Torch/TorchConfig.cmake abi_lines REGEX "_GLIBCXX_USE_CXX11_ABI=[01]")
if(NOT "${abi_lines}" MATCHES "_GLIBCXX_USE_CXX11_ABI=([01])")
  message(FATAL_ERROR "The torch wheel in ${WHEEL} does not say which C++ string ABI it uses.")
endif()
set(CXX11_ABI ${CMAKE_MATCH_1})

# pybind11 shares its types and exception translators only among modules that
# agree on this name, which clang would build differently.
file(STRINGS ${WHEEL}/lib/libtorch_python.so pybind_names REGEX "__pybind11_internals_v[0-9]+_gcc_")
if(NOT "${pybind_names}" MATCHES "__pybind11_internals_v[0-9]+(_gcc)(_libstdcpp)(_cxxabi[0-9]+)")
  message(FATAL_ERROR "${WHEEL}/lib/libtorch_python.so does not say how pybind11 was built.")
endif()
set(PYBIND_DEFINITIONS
  PYBIND11_COMPILER_TYPE="${CMAKE_MATCH_1}" PYBIND11_STDLIB="${CMAKE_MATCH_2}" PYBIND11_BUILD_ABI="${CMAKE_MATCH_3}")

# A Debian package unpacks to usr/; accept the directory above it too.
if(IS_DIRECTORY ${OBJFW_ROOT}/usr/include/ObjFW)
  set(OBJFW ${OBJFW_ROOT}/usr)
else()
  set(OBJFW ${OBJFW_ROOT})
endif()
file(GLOB_RECURSE OBJFW_RUNTIME ${OBJFW}/lib/*libobjfwrt.so.1)
file(GLOB_RECURSE OBJFW_BLOCKS ${OBJFW}/lib/*libobjfw.so.1)
if(NOT OBJFW_RUNTIME OR NOT OBJFW_BLOCKS)
  message(FATAL_ERROR "No libobjfw.so.1 and libobjfwrt.so.1 below ${OBJFW_ROOT}: run `make setup`.")
endif()
list(GET OBJFW_RUNTIME 0 OBJFW_RUNTIME)
list(GET OBJFW_BLOCKS 0 OBJFW_BLOCKS)
get_filename_component(OBJFW_LIBRARY_DIRECTORY ${OBJFW_RUNTIME} DIRECTORY)
