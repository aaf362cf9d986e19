# What the tests of a binding share: an environment with the library of the build tree, a driver without a GPU and one cache, and
# run(FOLDER COMMAND..). TOOL, SOURCE, INCLUDE, LIBRARY_DIR, DRIVER, WORK.
file(MAKE_DIRECTORY ${WORK} ${WORK}/../cache)
set(ENV{SINTER_CACHE_DIR} ${WORK}/../cache)
set(ENV{LD_LIBRARY_PATH} ${LIBRARY_DIR})
if(DRIVER)
  set(ENV{SINTER_LIBCUDA} ${DRIVER})
endif()

# Runs a command there; what it printed is in `output`. One that ends with 77 skips the test, any other failure fails it.
function(run folder)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${folder} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  message("${output}")
  set(output "${output}" PARENT_SCOPE)
  if(status EQUAL 77)
    message("SINTER_SKIPPED")
  elseif(NOT status EQUAL 0)
    message(FATAL_ERROR "exit status ${status}: ${ARGN}")
  endif()
endfunction()
