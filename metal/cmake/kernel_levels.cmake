# Compiles src/cpu/kernels.cpp once per instruction level, each copy in its own namespace.
# Only these files get the level's flags; which copy runs is decided at run time.

# -ffp-contract=off: a fused multiply-add happens where the source says so and nowhere else.
set(OCTAVO_KERNEL_OPTIONS -O3 -ffp-contract=off -fno-math-errno -fno-exceptions -fno-rtti)

function(octavo_add_level target level)
  add_library(octavo_kernels_${level} OBJECT src/cpu/kernels.cpp)
  target_include_directories(octavo_kernels_${level} PRIVATE src)
  target_compile_options(octavo_kernels_${level} PRIVATE
    ${OCTAVO_WARNINGS} ${OCTAVO_KERNEL_OPTIONS} ${ARGN})
  target_compile_definitions(octavo_kernels_${level} PRIVATE
    OCTAVO_LEVEL=${level} OCTAVO_LEVEL_${level})
  set_target_properties(octavo_kernels_${level} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:octavo_kernels_${level}>)
  set_property(TARGET ${target} APPEND PROPERTY OCTAVO_KERNEL_OBJECTS $<TARGET_OBJECTS:octavo_kernels_${level}>)
  target_compile_definitions(${target} PRIVATE OCTAVO_HAS_${level})
endfunction()

function(octavo_add_kernel_levels target)
  octavo_add_level(${target} plain)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    octavo_add_level(${target} avx2 -mavx2 -mfma -mf16c)
    # GCC 12 takes the deliberately undefined operand inside its own intrinsics for a mistake.
    octavo_add_level(${target} avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512vl
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "arm64|aarch64")
    octavo_add_level(${target} neon)
  endif()
  if(CMAKE_NM)
    get_target_property(objects ${target} OCTAVO_KERNEL_OBJECTS)
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} "-DOBJECTS=$<JOIN:${objects},|>"
        -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/check_kernel_symbols.cmake
      VERBATIM)
  endif()
endfunction()
