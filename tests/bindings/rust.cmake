# Builds and tests the crates with cargo, without a registry. The lines of sinter's README are a test of its documentation.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
set(ENV{CARGO_HOME} ${WORK}/home)
set(ENV{CARGO_TARGET_DIR} ${WORK}/target)
set(ENV{SINTER_LIB_DIR} ${LIBRARY_DIR})
# The example runs as a program of the build folder and of a bundle: tests/bindings/CMakeLists.txt.
set(ENV{RUSTFLAGS} "-D warnings -C link-arg=-Wl,-rpath,$ORIGIN/../lib,--disable-new-dtags")
if(EXAMPLE)
  run(${SOURCE} ${TOOL} build --quiet --offline --locked --example ${EXAMPLE})
  file(COPY_FILE ${WORK}/target/debug/examples/${EXAMPLE} ${PROGRAM})
else()
  run(${SOURCE} ${TOOL} test --quiet --offline --locked)
  # Without the library the build script says what it looked for.
  set(ENV{CARGO_TARGET_DIR} ${WORK}/missing)
  set(ENV{SINTER_LIB_DIR} ${WORK}/no-such-folder)
  run(${SOURCE} ${TOOL} check --offline --locked -p sinter-sys)
  if(NOT output MATCHES "SINTER_LIB_DIR is ${WORK}/no-such-folder, which holds no libsinter.so"
     OR NOT output MATCHES "PKG_CONFIG_PATH=PREFIX/lib/pkgconfig")
    message(FATAL_ERROR "the build script does not say what is missing")
  endif()
endif()
