# mx.array crosses from mlx.core into the extension only when both hold the same nanobind internals key.
# Run after linking: cmake -DEXTENSION=... -DMLX_CORE=... -P check_nanobind_key.cmake

set(key_pattern "nanobind[a-z0-9_]*_abi[a-z0-9_]*_a[0-9]+_v[0-9]+[a-z_]*")

function(read_key binary result)
  file(STRINGS "${binary}" found REGEX "${key_pattern}")
  string(REGEX MATCH "${key_pattern}" key "${found}")
  if(key STREQUAL "")
    message(FATAL_ERROR "metal: no nanobind internals key found in ${binary}")
  endif()
  set(${result} "${key}" PARENT_SCOPE)
endfunction()

read_key("${EXTENSION}" extension_key)
read_key("${MLX_CORE}" mlx_key)
if(NOT extension_key STREQUAL mlx_key)
  file(REMOVE "${EXTENSION}")
  message(FATAL_ERROR
    "metal: the nanobind used here (${extension_key}) does not match the one mlx.core was built "
    "with (${mlx_key}); install the nanobind release that pyproject.toml names")
endif()
