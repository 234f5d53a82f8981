# Sources that a PyTorch build generates as well, made here from the checkout.

set(GENERATED ${CMAKE_BINARY_DIR}/generated)
set(checkout_aten ${TORCH_CHECKOUT}/aten/src/ATen)

# torchgen: registrations and headers of all MPS operators. The stock wheel was
# generated without --mps, so these headers must be found before the wheel's.
file(GLOB_RECURSE torchgen_inputs CONFIGURE_DEPENDS
  ${checkout_aten}/templates/* ${TORCH_CHECKOUT}/torchgen/*.py)
list(APPEND torchgen_inputs ${checkout_aten}/native/native_functions.yaml ${checkout_aten}/native/tags.yaml)
set(REGISTER_MPS ${GENERATED}/ATen/RegisterMPS.cpp)
set(torchgen_stamp ${GENERATED}/torchgen.stamp)
add_custom_command(
  OUTPUT ${torchgen_stamp}
  BYPRODUCTS ${REGISTER_MPS}
  COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1
    ${PYTHON} -m torchgen.gen --mps --per-operator-headers --generate headers sources
    --source-path ${checkout_aten} --install_dir ${GENERATED}/ATen
    --aoti_install_dir ${GENERATED}/aoti_torch # its default is inside the checkout
  COMMAND ${CMAKE_COMMAND} -E touch ${torchgen_stamp}
  DEPENDS ${torchgen_inputs}
  WORKING_DIRECTORY ${TORCH_CHECKOUT}
  COMMENT "Generating the MPS operator registrations"
  VERBATIM)

# Metal kernels: on a machine without Apple's compiler a PyTorch build wraps
# each source file in a header that compiles it at run time; so does this.
file(GLOB_RECURSE metal_kernels CONFIGURE_DEPENDS ${checkout_aten}/native/mps/*.metal)
set(metal_headers)
foreach(kernel ${metal_kernels})
  get_filename_component(stem ${kernel} NAME_WE)
  set(header ${GENERATED}/ATen/native/mps/${stem}_metallib.h)
  list(APPEND metal_headers ${header})
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${PYTHON} -I ${CMAKE_CURRENT_SOURCE_DIR}/cmake/metal_header.py
      ${kernel} ${header}
    DEPENDS ${kernel} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/metal_header.py
    COMMENT "Wrapping ${stem}.metal"
    VERBATIM)
endforeach()

# ArrayRef with one more constructor: see the script.
set(array_ref ${GENERATED}/c10/util/ArrayRef.h)
add_custom_command(
  OUTPUT ${array_ref}
  COMMAND ${PYTHON} -I ${CMAKE_CURRENT_SOURCE_DIR}/cmake/array_ref.py
    ${TORCH_CHECKOUT}/c10/util/ArrayRef.h ${array_ref}
  DEPENDS ${TORCH_CHECKOUT}/c10/util/ArrayRef.h ${CMAKE_CURRENT_SOURCE_DIR}/cmake/array_ref.py
  COMMENT "Generating ArrayRef.h"
  VERBATIM)

add_custom_target(generated_sources DEPENDS ${torchgen_stamp} ${metal_headers} ${array_ref})
