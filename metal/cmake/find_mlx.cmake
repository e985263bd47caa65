# Finds MLX and nanobind in the Python environment of this build and refuses any MLX but the pinned one.

function(octavo_ask_python code result)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "${code}"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "metal: ${Python_EXECUTABLE} has no ${result}: "
      "install mlx==${OCTAVO_MLX_VERSION} and nanobind first")
  endif()
  set(${result} "${answer}" PARENT_SCOPE)
endfunction()

octavo_ask_python("from importlib.metadata import version; print(version('mlx'))" mlx_version)
if(NOT mlx_version STREQUAL OCTAVO_MLX_VERSION)
  message(FATAL_ERROR "metal: built for mlx ${OCTAVO_MLX_VERSION}, found mlx ${mlx_version}: "
    "install mlx==${OCTAVO_MLX_VERSION}")
endif()

octavo_ask_python(
  "import importlib.util as u; print(u.find_spec('mlx.core').origin)" OCTAVO_MLX_CORE)
octavo_ask_python("import nanobind; print(nanobind.cmake_dir())" nanobind_ROOT)
find_package(nanobind CONFIG REQUIRED)

get_filename_component(OCTAVO_MLX_DIR "${OCTAVO_MLX_CORE}" DIRECTORY)
set(MLX_ROOT "${OCTAVO_MLX_DIR}/share/cmake/MLX")
find_package(MLX CONFIG REQUIRED)

# SYSTEM: warnings concern our own sources only.
add_library(mlx_headers_and_library INTERFACE)
target_include_directories(mlx_headers_and_library SYSTEM INTERFACE ${MLX_INCLUDE_DIRS})
target_link_libraries(mlx_headers_and_library INTERFACE mlx)

set(OCTAVO_WARNINGS -Wall -Wextra)
if(OCTAVO_WERROR)
  list(APPEND OCTAVO_WARNINGS -Werror)
endif()
