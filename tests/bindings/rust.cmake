# Builds and tests the crates with cargo, without a registry.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
set(ENV{CARGO_HOME} ${WORK}/home)
set(ENV{CARGO_TARGET_DIR} ${WORK}/target)
set(ENV{SINTER_LIB_DIR} ${LIBRARY_DIR})
run(${SOURCE} ${TOOL} test --quiet --offline --locked)
