# Compile and link flags that every target shares.

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_OBJCXX_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# -fclang-abi-compat=17: later versions mangle some templates in a way that GCC,
# which built the wheel, does not.
# Inline functions stay inside the library: the wheel brings its own copies.
add_compile_options(
  -O1 -fblocks -fexceptions -fclang-abi-compat=17 -fvisibility-inlines-hidden
  -Wall -Wno-unused-function -Wno-undefined-var-template -Wno-ignored-attributes
  "$<$<COMPILE_LANGUAGE:OBJCXX>:-fobjc-runtime=objfw-1.3;-fconstant-string-class=NSConstantString;-fno-objc-arc>")

add_compile_definitions(
  _GLIBCXX_USE_CXX11_ABI=${CXX11_ABI}
  USE_MPS AT_PER_OPERATOR_HEADERS USE_EXTERNAL_MZCRC CAFFE2_BUILD_MAIN_LIB NDEBUG USE_DISTRIBUTED
  # DispatchStub's layout in the wheel
  HAVE_AVX2_CPU_DEFINITION HAVE_AVX512_CPU_DEFINITION
  FMT_HEADER_ONLY=1)

add_link_options(-fuse-ld=lld -Wl,--no-undefined -Wl,--build-id=none)

# The libraries run from the build tree: each knows where its neighbours are.
set(CMAKE_BUILD_RPATH ${WHEEL}/lib ${OBJFW_LIBRARY_DIRECTORY})

# --- sanitizers ------------------------------------------------------------
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
    # The cases of the frameworks need no backend, which takes three times as long to build as they do. With it, programs
    # that encode ahead run.
    option(SANITIZED_BACKEND "Build the backend with -DSANITIZER=thread, too" OFF)
    if(NOT SANITIZED_BACKEND)
      set(FRAMEWORKS_ONLY ON)
    endif()
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

# --- ccache -----------------------------------------------------------------

find_program(CCACHE ccache)
if(CCACHE)
  # A precompiled header can be cached only with these two options.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_OBJCXX_COMPILER_LAUNCHER ${launcher})
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()
