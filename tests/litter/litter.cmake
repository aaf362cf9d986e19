# Lists what stands where tests have no business, before they run, and fails if there is more afterwards. LIST: the file
# that keeps the list. WHEN: before or after. ROOT: stands for / in the test of this check.
#
# Others use the same machine meanwhile, so only the root folder is looked at whole; elsewhere names of ours.
file(GLOB found LIST_DIRECTORIES true ${ROOT}/* ${ROOT}/.*)
foreach(folder ${ROOT}/tmp ${ROOT}/var/tmp ${ROOT}$ENV{HOME} ${ROOT}$ENV{HOME}/.cache)
  file(GLOB ours LIST_DIRECTORIES true ${folder}/sinter* ${folder}/.sinter*)
  list(APPEND found ${ours})
endforeach()
list(SORT found)
if(WHEN STREQUAL before)
  file(WRITE ${LIST} "${found}")
elseif(EXISTS ${LIST})
  file(READ ${LIST} before)
  list(REMOVE_ITEM found ${before})
  file(REMOVE ${LIST})
  if(found)
    list(JOIN found "\n  " lines)
    message(FATAL_ERROR "the tests left outside the build folder:\n  ${lines}\nA path that must not be made lies "
                        "under a file (/dev/null/name): nothing can be made there, not even by root.")
  endif()
endif()
