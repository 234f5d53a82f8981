# The compiler of torch.utils.cpp_extension on the simulator: what Apple's clang
# does for an extension on a Mac, with this build's headers and libraries.

# _build.py of the package looks for it there.
set(EXTENSION_COMPILER ${CMAKE_BINARY_DIR}/bin/mps-clang++)
set(EXTENSION_COMPILE_FLAGS
  -fblocks -fexceptions -fclang-abi-compat=17 -fvisibility-inlines-hidden
  -fobjc-runtime=objfw-1.3 -fconstant-string-class=NSConstantString -fno-objc-arc
  -include ${here}/glue/prefix.h)
# Before the wheel's directories, which torch names with -isystem too: the
# wheel's headers of MPS operators were generated without MPS.
foreach(directory
    ${here}/include ${GENERATED} ${TORCH_CHECKOUT}/aten/src
    ${TORCH_CHECKOUT}/torch/csrc/api/include ${TORCH_CHECKOUT} ${OBJFW}/include)
  list(APPEND EXTENSION_COMPILE_FLAGS -isystem ${directory})
endforeach()
set(EXTENSION_LINK_FLAGS
  -fuse-ld=lld -L${CMAKE_BINARY_DIR} -lmps_simulator ${OBJFW_RUNTIME} ${OBJFW_BLOCKS}
  -Wl,-rpath,${CMAKE_BINARY_DIR} -Wl,-rpath,${OBJFW_LIBRARY_DIRECTORY})

function(quote_for_shell name)
  set(quoted)
  foreach(argument ${ARGN})
    string(REPLACE "'" "'\\''" argument "${argument}")
    list(APPEND quoted "'${argument}'")
  endforeach()
  list(JOIN quoted " " quoted)
  set(${name} "${quoted}" PARENT_SCOPE)
endfunction()
set(extension_compiler ${CMAKE_CXX_COMPILER})
if(CCACHE)
  list(PREPEND extension_compiler ${CCACHE})
endif()
quote_for_shell(extension_compiler ${extension_compiler})
quote_for_shell(extension_compile_flags ${EXTENSION_COMPILE_FLAGS})
quote_for_shell(extension_link_flags ${EXTENSION_LINK_FLAGS})

file(CONFIGURE OUTPUT ${EXTENSION_COMPILER} @ONLY CONTENT [=[
#!/bin/sh
# Generated. A C++ and Objective-C++ compiler that knows the Metal simulator.
compile=
link=yes
for argument in "$@"; do
  case $argument in
    -c|-E|-S|-M|-MM|-fsyntax-only) link= ;;
    -v|--version|-dump*) exec @extension_compiler@ "$@" ;;
    *.mm|*.m|*.cpp|*.cc|*.cxx|*.c) compile=yes ;;
  esac
done
if [ -n "$link" ]; then
  set -- "$@" @extension_link_flags@
fi
if [ -n "$compile" ]; then
  set -- @extension_compile_flags@ "$@"
fi
exec @extension_compiler@ "$@"
]=])
file(CHMOD ${EXTENSION_COMPILER} PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
