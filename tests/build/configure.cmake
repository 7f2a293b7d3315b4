# Configures the project with OPTIONS, separated by blanks (and builds TARGET if it is among them); the outcome must be as FAILS
# says, and the output must match EXPECT.
separate_arguments(OPTIONS)
file(REMOVE_RECURSE ${WORK})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK} -G ${GENERATOR} -DGE_BUILD_TESTS=OFF
    -DGE_BUILD_SAMPLES=OFF ${OPTIONS}
  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE code)
if(code EQUAL 0 AND OPTIONS MATCHES "-DTARGET=([a-z_]+)")
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK} --target ${CMAKE_MATCH_1}
    OUTPUT_VARIABLE built ERROR_VARIABLE built RESULT_VARIABLE code)
  string(APPEND said "${built}")
endif()
file(REMOVE_RECURSE ${WORK})
string(REGEX REPLACE "\n  +" " " on_one_line "${said}")  # CMake wraps its messages
set(failed ON)
if(code EQUAL 0)
  set(failed OFF)
endif()
if((failed AND NOT FAILS) OR (FAILS AND NOT failed) OR NOT "${said}${on_one_line}" MATCHES "${EXPECT}")
  message(FATAL_ERROR "exit code ${code}, expected '${EXPECT}' in:\n${said}")
endif()
