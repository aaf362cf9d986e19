# Installs into a temporary prefix, moves the prefix, then builds and runs the consumers against it: in C by find_package and by
# pkg-config, in C++ by pkg-config. Arguments: SINTER_BUILD, SINTER_VERSION, CONSUMER, WORK, C_COMPILER, CXX_COMPILER, LIBDIR, GENERATOR, MAKE_PROGRAM: the
# consumer is built by what built the library, which may be all that is here.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
  endif()
  set(run_output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${SINTER_BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/prefix)
set(prefix ${WORK}/prefix)

run(${CMAKE_COMMAND} -S ${CONSUMER}/c -B ${WORK}/cmake -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_C_COMPILER=${C_COMPILER})
run(${CMAKE_COMMAND} --build ${WORK}/cmake)
run(${WORK}/cmake/consumer)
message(STATUS "find_package: ${run_output}")

find_program(pkg_config pkg-config REQUIRED)
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
run(${pkg_config} --modversion sinter)
string(STRIP "${run_output}" version)
if(NOT version STREQUAL SINTER_VERSION)
  message(FATAL_ERROR "pkg-config says ${version}, the project ${SINTER_VERSION}")
endif()
run(${pkg_config} --cflags --libs sinter)
separate_arguments(flags UNIX_COMMAND "${run_output}")
run(${C_COMPILER} -std=c99 -Wall -Wextra -Werror ${CONSUMER}/c/consumer.c -o ${WORK}/by_pkg_config ${flags})
run(${WORK}/by_pkg_config)  # the file's flags say where the library lies
message(STATUS "pkg-config: ${run_output}")
run(${CXX_COMPILER} -std=c++17 -fno-exceptions -fno-rtti -Wall -Wextra -Werror ${CONSUMER}/cpp/consumer.cc -o ${WORK}/in_cpp ${flags})
run(${WORK}/in_cpp)
message(STATUS "C++: ${run_output}")

if(EXISTS ${prefix}/bin/sinter)
  run(${prefix}/bin/sinter version)
  message(STATUS "installed command: ${run_output}")
endif()
file(REMOVE_RECURSE ${WORK})
