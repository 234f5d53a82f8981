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

include(Sanitizer)

find_program(CCACHE ccache)
if(CCACHE)
  # A precompiled header can be cached only with these two options.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_OBJCXX_COMPILER_LAUNCHER ${launcher})
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()
