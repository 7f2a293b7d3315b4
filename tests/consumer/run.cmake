# run(<command>...): runs it, and stops with all it printed if it fails.
function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
  if(failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "exit code ${failed} of: ${command}\n${said}")
  endif()
endfunction()
