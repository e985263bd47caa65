# A level's kernels may share nothing with the rest of the program: an inline function compiled with their flags
# could replace the plain copy elsewhere and end in an illegal instruction. So each object defines one symbol.
# Run after linking: cmake -DNM=... -DOBJECTS=a.o|b.o -P check_kernel_symbols.cmake

string(REPLACE "|" ";" objects "${OBJECTS}")
foreach(object IN LISTS objects)
  execute_process(COMMAND "${NM}" -g "${object}" OUTPUT_VARIABLE symbols RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "metal: ${NM} cannot read ${object}")
  endif()
  string(REGEX MATCHALL "[^\n]* [A-TV-Zuvw] [^\n]*" defined "${symbols}")
  list(LENGTH defined count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "metal: ${object} should define its table of kernels alone, but has:\n${symbols}")
  endif()
endforeach()
