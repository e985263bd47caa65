# The GPU side: launch logic and evaluation everywhere, Metal itself on Apple. The kernel sources become a string.

set(OCTAVO_VERSION "${SKBUILD_PROJECT_VERSION}")
if(OCTAVO_VERSION STREQUAL "")
  set(OCTAVO_VERSION 0)
endif()
set(OCTAVO_KERNEL_CPP ${CMAKE_CURRENT_BINARY_DIR}/kernel_source.cpp)
file(GLOB OCTAVO_KERNEL_FILES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*)
add_custom_command(
  OUTPUT ${OCTAVO_KERNEL_CPP}
  COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/kernels/embed.py
    ${OCTAVO_KERNEL_CPP} ${OCTAVO_VERSION}
  DEPENDS ${OCTAVO_KERNEL_FILES} ${CMAKE_CURRENT_SOURCE_DIR}/src/page_index.h
  VERBATIM)

function(octavo_add_gpu target)
  if(APPLE)
    set(evaluate src/gpu/metal_commands.cpp)
  else()
    set(evaluate src/gpu/no_metal_commands.cpp)
  endif()
  target_sources(${target} PRIVATE
    ${OCTAVO_KERNEL_CPP}
    ${evaluate}
    src/gpu/paged_attention_gpu.cpp
    src/gpu/paged_cache_update_gpu.cpp
    src/launch/attention_launch.cpp
    src/launch/cache_update_launch.cpp
    src/launch/kernel_name.cpp)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
endfunction()
