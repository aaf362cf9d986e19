# -DFILE=src/package/maintainer.cmake -DWORK=folder: what SINTER_MAINTAINER becomes, and what it may not be.
file(MAKE_DIRECTORY ${WORK})
file(WRITE ${WORK}/print.cmake "include(${FILE})\nmessage(\"is \${SINTER_MAINTAINER}\")\n")

# expect(WANTED ARGUMENT...): cmake's words, run with ARGUMENTs (-D.. or NAME=value for the environment), match WANTED.
function(expect wanted)
  set(options ${ARGN})
  list(FILTER options INCLUDE REGEX "^-D")
  set(environment ${ARGN})
  list(FILTER environment EXCLUDE REGEX "^-D")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=DEBEMAIL --unset=DEBFULLNAME ${environment}
            ${CMAKE_COMMAND} -DSINTER_DEBIAN=ON ${options} -P ${WORK}/print.cmake
    OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(NOT said MATCHES "${wanted}")
    message(SEND_ERROR "${ARGN}: wanted \"${wanted}\", got \"${said}\"")
  endif()
endfunction()

expect("is Sinter maintainers <maintainers@sinter.invalid>")
expect("is Ann B <a@b.org>" DEBEMAIL=a@b.org "DEBFULLNAME=Ann B")
expect("is Ann <a@b.org>" "DEBEMAIL=Ann <a@b.org>" "DEBFULLNAME=Ann B")
expect("is Sinter maintainers <" DEBEMAIL=a@b.org)
expect("is Ann-Marie d'Or <a.b.c@x-y.co.uk>" "-DSINTER_MAINTAINER=Ann-Marie d'Or <a.b.c@x-y.co.uk>" DEBEMAIL=a@b.org "DEBFULLNAME=Ann B")
foreach(bad "Me" "<me@b.org>" "Me <me@localhost>" "Me <me>" "Me <a@b.org>, You <c@d.org>")
  expect("SINTER_MAINTAINER is \"${bad}\", must be" "-DSINTER_MAINTAINER=${bad}")
endforeach()
expect("is Me" "-DSINTER_MAINTAINER=Me" -DSINTER_DEBIAN=OFF)  # makes no package
