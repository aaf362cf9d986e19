# Files that existed before are not litter. A new name in the root is litter, and so is a name of ours in a shared folder. CHECK, WORK.
set(ENV{HOME} /home/someone)

function(run when result)
  execute_process(COMMAND ${CMAKE_COMMAND} -DLIST=${WORK}/before -DWHEN=${when} -DROOT=${WORK}/root -P ${CHECK}
                  RESULT_VARIABLE status ERROR_VARIABLE output)
  set(${result} ${status} PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The file made between the two runs, and whether it is litter.
foreach(row "tmp/other=no" "home/someone/.cache/pip=no" "nonexistent=yes" "tmp/sinter-capi-1=yes"
            "home/someone/.cache/sinter=yes" "dev=no")
  string(REPLACE "=" ";" row ${row})
  list(GET row 0 path)
  list(GET row 1 litter)
  file(REMOVE_RECURSE ${WORK})
  file(MAKE_DIRECTORY ${WORK}/root/dev ${WORK}/root/tmp/sinter-old ${WORK}/root/home/someone/.cache)
  run(before status)
  file(MAKE_DIRECTORY ${WORK}/root/${path})
  run(after status)
  if(litter STREQUAL yes AND (status EQUAL 0 OR NOT output MATCHES "/root/${path}"))
    message(FATAL_ERROR "${path} was not noticed: ${status} ${output}")
  elseif(litter STREQUAL no AND NOT status EQUAL 0)
    message(FATAL_ERROR "${path} is no litter: ${output}")
  endif()
endforeach()
file(REMOVE_RECURSE ${WORK})
