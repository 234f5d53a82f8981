# A build that finds its own errors: -DSANITIZER=address,undefined or -DSANITIZER=thread.
# Everything compiled here is instrumented; Python, the wheel and ObjFW are not.

set(SANITIZER "" CACHE STRING "Sanitizers to compile with, as clang's -fsanitize= takes them; empty for none")
set(SANITIZER_RUNTIME "")
set(FRAMEWORKS_ONLY OFF)
if(SANITIZER)
  # Reports need names and lines; whether one ends the process is decided at run time.
  add_compile_options(
    -fsanitize=${SANITIZER} -fsanitize-recover=all -fno-omit-frame-pointer -gline-tables-only)
  if("${SANITIZER}" MATCHES "address")
    # Kernels run on stacks of their own, which the emulated stack of this check knows nothing about.
    add_compile_options(-fsanitize-address-use-after-return=never)
    set(sanitizer_library asan)
  elseif("${SANITIZER}" MATCHES "thread")
    set(sanitizer_library tsan)
    # All threads are the frameworks': the GPU's, the handlers', the queues'. Their
    # cases need no backend, which would take three times as long to build as they do.
    set(FRAMEWORKS_ONLY ON)
  else()
    message(FATAL_ERROR "SANITIZER is \"${SANITIZER}\"; `address,undefined` and `thread` are known here.")
  endif()
  if("${SANITIZER}" MATCHES "undefined")
    # vptr asks for the type information of the wheel's classes, much of which is hidden in it.
    add_compile_options(-fno-sanitize=vptr)
  endif()
  # The interpreter is not instrumented, so the runtime is a library that it is started with.
  add_link_options(-fsanitize=${SANITIZER} -shared-libsan)
  execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.${sanitizer_library}-x86_64.so
    OUTPUT_VARIABLE SANITIZER_RUNTIME
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT EXISTS "${SANITIZER_RUNTIME}")
    message(FATAL_ERROR "clang has no libclang_rt.${sanitizer_library}-x86_64.so: run `make setup`.")
  endif()
endif()
