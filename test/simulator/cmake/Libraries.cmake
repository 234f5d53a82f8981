# libmps_simulator.so = frameworks + backend + glue; mps_bindings = Python side.

set(here ${CMAKE_CURRENT_SOURCE_DIR})

# --- the frameworks -------------------------------------------------------
# OBJECT libraries; `name_sources` gets what the directories hold.
function(find_sources name)
  set(found)
  foreach(part ${ARGN})
    file(GLOB_RECURSE part_sources CONFIGURE_DEPENDS ${here}/${part}/*.mm ${here}/${part}/*.cpp)
    # What the shader compiler needs at run time is no part of the library.
    list(FILTER part_sources EXCLUDE REGEX "/${part}/(compiler|runtime|include|examples)/")
    list(APPEND found ${part_sources})
  endforeach()
  set(${name} ${found} PARENT_SCOPE)
endfunction()

function(framework_target target)
  target_include_directories(${target} PRIVATE ${here} ${here}/include)
  target_include_directories(${target} SYSTEM PRIVATE
    ${OBJFW}/include ${WHEEL}/include ${WHEEL}/include/torch/csrc/api/include)
endfunction()

find_sources(frameworks_sources support foundation metal shader performance_shaders)
add_library(frameworks OBJECT ${frameworks_sources})
framework_target(frameworks)
target_compile_definitions(frameworks PRIVATE
  MPS_SIMULATOR_SOURCE_DIR="${here}"
  MPS_SIMULATOR_DEFAULT_PYTHON="${PYTHON}"
  MPS_SIMULATOR_CLANG="${CMAKE_CXX_COMPILER}")
target_precompile_headers(frameworks PRIVATE
  "$<$<COMPILE_LANGUAGE:OBJCXX>:MetalPerformanceShaders/MetalPerformanceShaders.h$<SEMICOLON>functional$<SEMICOLON>map$<SEMICOLON>mutex$<SEMICOLON>thread$<SEMICOLON>vector>")

# The operations are expressions over all of ATen, whose headers take longer to
# read than the rest of each file.
find_sources(graph_sources graph)
add_library(graph OBJECT ${graph_sources})
# Loops over elements, which are worth vectorizing.
set_source_files_properties(${here}/graph/elementwise.cpp PROPERTIES COMPILE_OPTIONS -O2)
framework_target(graph)
target_precompile_headers(graph PRIVATE
  "$<$<COMPILE_LANGUAGE:OBJCXX>:ATen/ATen.h$<SEMICOLON>MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>")

# --- PyTorch's MPS backend, found as upstream's CMake finds it ------------
set(aten ${TORCH_CHECKOUT}/aten/src/ATen)
file(GLOB runtime_sources CONFIGURE_DEPENDS ${aten}/mps/*.mm ${aten}/mps/*.cpp)
file(GLOB_RECURSE operation_sources CONFIGURE_DEPENDS ${aten}/native/mps/*.mm ${aten}/native/mps/*.cpp)
# A patch of the series brings it; a checkout without the series has none.
file(GLOB inductor_sources CONFIGURE_DEPENDS ${TORCH_CHECKOUT}/torch/csrc/inductor/aoti_torch/shim_mps.mm)
file(GLOB binding_sources CONFIGURE_DEPENDS ${TORCH_CHECKOUT}/torch/csrc/mps/*.cpp ${TORCH_CHECKOUT}/torch/csrc/mps/*.mm)

# The checkout goes before the wheel, whose headers of the same name are not
# patched; what only a build generates is in the wheel alone.
function(backend_target target)
  add_dependencies(${target} generated_sources)
  target_include_directories(${target} PRIVATE
    ${here}/include ${here} ${GENERATED} ${TORCH_CHECKOUT}/aten/src
    ${TORCH_CHECKOUT}/torch/csrc/api/include ${TORCH_CHECKOUT}
    ${WHEEL}/include ${WHEEL}/include/torch/csrc/api/include ${OBJFW}/include)
  target_compile_definitions(${target} PRIVATE PYTORCH_JIT_COMPILE_SHADERS)
  target_compile_options(${target} PRIVATE
    -w -include ${here}/glue/prefix.h)
endfunction()

add_library(backend_runtime OBJECT ${runtime_sources} ${inductor_sources}
  ${TORCH_CHECKOUT}/torch/csrc/api/src/mps.cpp
  # Interposes the wheel's, which was compiled without its MPS case.
  ${aten}/native/DispatchStub.cpp)
backend_target(backend_runtime)
# The precompiled headers of this target and of mps_bindings are not for a build with
# a sanitizer: an overlay file that forgets an include must fail there as on a Mac.
if(NOT SANITIZER)
  target_precompile_headers(backend_runtime PRIVATE
    "$<$<COMPILE_LANGUAGE:OBJCXX>:ATen/record_function.h$<SEMICOLON>MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>")
endif()
set_source_files_properties(${aten}/mps/EmptyTensor.cpp PROPERTIES
  COMPILE_OPTIONS "-include;${here}/glue/empty_tensor_prefix.h")

add_library(backend_operations OBJECT ${operation_sources})
backend_target(backend_operations)
target_precompile_headers(backend_operations PRIVATE
  "$<$<COMPILE_LANGUAGE:OBJCXX>:${aten}/native/mps/OperationUtils.h>")

if(NOT SANITIZER)
  # As in a release: the benchmark counts what the series costs eager operators.
  target_compile_options(backend_runtime PRIVATE -O2)
  target_compile_options(backend_operations PRIVATE -O2)
  # The wheel calls this one. Optimized, it counts on a DeviceType that the caller extends to 32 bits, as GCC does not.
  set_source_files_properties(${aten}/native/DispatchStub.cpp PROPERTIES COMPILE_OPTIONS -O1)
endif()

option(COVER_RUNTIME "Record which functions of the backend's runtime ran, too (test/mac_wheel/layered)" OFF)
if(COVER_RUNTIME AND NOT SANITIZER)
  target_compile_options(backend_runtime PRIVATE -fsanitize-coverage=func,inline-8bit-counters,pc-table)
endif()

if(NOT SANITIZER)
  # A byte at the entry of each function tells which sources a test went through (support/functions_run.cpp).
  target_compile_options(backend_operations PRIVATE -fsanitize-coverage=func,inline-8bit-counters,pc-table)
endif()

add_library(backend_registrations OBJECT ${REGISTER_MPS})
set_source_files_properties(${REGISTER_MPS} PROPERTIES GENERATED TRUE)
backend_target(backend_registrations)
# Generated calls, which take long to optimize and short to run.
target_compile_options(backend_registrations PRIVATE -O0)
if(SANITIZER)
  # These are generated calls only, and instrumenting them takes a third of the build's time.
  target_compile_options(backend_registrations PRIVATE -fno-sanitize=all)
endif()

# --- what the wheel lacks because it was compiled without USE_MPS ---------
file(GLOB glue_sources CONFIGURE_DEPENDS ${here}/glue/*.mm ${here}/glue/*.cpp)
add_library(glue OBJECT ${glue_sources})
backend_target(glue)
target_precompile_headers(glue PRIVATE <ATen/core/Tensor.h> <torch/library.h>)

set(backend_objects
  $<TARGET_OBJECTS:backend_runtime> $<TARGET_OBJECTS:backend_operations>
  $<TARGET_OBJECTS:backend_registrations> $<TARGET_OBJECTS:glue>)
if(FRAMEWORKS_ONLY)
  set(backend_objects)
  set_target_properties(backend_runtime backend_operations backend_registrations glue PROPERTIES EXCLUDE_FROM_ALL ON)
endif()

add_library(mps_simulator SHARED
  $<TARGET_OBJECTS:frameworks> $<TARGET_OBJECTS:graph> ${backend_objects})
set_target_properties(mps_simulator PROPERTIES LINKER_LANGUAGE CXX)
# Which object each function is of: read by mps_simulator/touched.py.
target_link_options(mps_simulator PRIVATE -Wl,-Map=${CMAKE_BINARY_DIR}/libmps_simulator.map)
target_link_libraries(mps_simulator PRIVATE
  ${WHEEL}/lib/libtorch_cpu.so ${WHEEL}/lib/libc10.so ${OBJFW_RUNTIME} ${OBJFW_BLOCKS} pthread dl)
set_target_properties(mps_simulator PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

if(FRAMEWORKS_ONLY)
  return()
endif()
file(GLOB python_glue_sources CONFIGURE_DEPENDS ${here}/glue/bindings/*.cpp)
add_library(mps_bindings MODULE ${binding_sources} ${python_glue_sources})
backend_target(mps_bindings)
target_include_directories(mps_bindings SYSTEM PRIVATE ${PYTHON_INCLUDE})
target_compile_definitions(mps_bindings PRIVATE ${PYBIND_DEFINITIONS})
if(NOT SANITIZER)
  target_precompile_headers(mps_bindings PRIVATE
    <torch/csrc/Generator.h> <torch/csrc/autograd/python_variable.h> <torch/csrc/utils/pybind.h>)
endif()
# Hidden: libtorch_python exports functions of the same name, without MPS.
target_compile_options(mps_bindings PRIVATE -fvisibility=hidden)
target_link_libraries(mps_bindings PRIVATE mps_simulator
  ${WHEEL}/lib/libtorch_python.so ${WHEEL}/lib/libtorch_cpu.so ${WHEEL}/lib/libc10.so)
# Interpreter symbols come from the interpreter.
target_link_options(mps_bindings PRIVATE -Wl,-z,undefs)
set_target_properties(mps_bindings PROPERTIES
  PREFIX "" SUFFIX ${EXTENSION_SUFFIX} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
