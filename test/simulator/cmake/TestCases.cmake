# Self-tests written in Objective-C++, which tests/test_*.py load and run.

file(GLOB case_sources CONFIGURE_DEPENDS ${here}/tests/*.mm)
add_library(simulator_cases SHARED EXCLUDE_FROM_ALL ${case_sources})
add_dependencies(tests simulator_cases)
target_include_directories(simulator_cases PRIVATE ${here} ${here}/include)
target_include_directories(simulator_cases SYSTEM PRIVATE
  ${OBJFW}/include ${WHEEL}/include ${WHEEL}/include/torch/csrc/api/include)
target_precompile_headers(simulator_cases PRIVATE
  <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h> <functional> <string> <thread> <vector>)
# tests/objective_compiler.py compiles texts of its own with this one's options.
set_source_files_properties(${here}/tests/metal_objects.mm PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
target_link_libraries(simulator_cases PRIVATE mps_simulator
  ${WHEEL}/lib/libtorch_cpu.so ${WHEEL}/lib/libc10.so ${OBJFW_RUNTIME} ${OBJFW_BLOCKS} pthread)
# CMake writes no run path for OBJCXX here.
set_target_properties(simulator_cases PROPERTIES LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
