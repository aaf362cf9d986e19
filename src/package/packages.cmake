# What CPack makes: with SINTER_DEBIAN three Debian packages, else one archive. ./dev package calls it.
option(SINTER_DEBIAN "lay out and document what is installed as Debian packages want it" OFF)
include(${CMAKE_CURRENT_LIST_DIR}/maintainer.cmake)
set(sinter_license ${PROJECT_SOURCE_DIR}/LICENSE)
set(sinter_sbom ${PROJECT_BINARY_DIR}/package/sinter.cdx.json)  # by sbom.py, of the linked code
set(sinter_notices ${PROJECT_BINARY_DIR}/package/NOTICES)       # by notices.py, when it is installed

# Ninja has recorded what was linked, Debian's packages hold its notices.
find_package(Python3 COMPONENTS Interpreter QUIET)
find_program(SINTER_DPKG_QUERY dpkg-query)
if(Python3_FOUND AND SINTER_DPKG_QUERY AND CMAKE_GENERATOR STREQUAL "Ninja" AND TARGET sinter AND TARGET sinter_cli)
  install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" -B \"${CMAKE_CURRENT_LIST_DIR}/notices.py\"
    \"${PROJECT_BINARY_DIR}\" \"${sinter_notices}\" COMMAND_ERROR_IS_FATAL ANY)" ALL_COMPONENTS)
else()
  set(sinter_notices)
  if(SINTER_SELF_CONTAINED)
    message(WARNING "without Ninja, Python and dpkg-query the notices of what is linked are not installed")
  endif()
endif()

set(CPACK_PACKAGE_NAME sinter)
set(CPACK_PACKAGE_VENDOR Sinter)
set(CPACK_PACKAGE_FILE_NAME sinter-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${sinter_license})
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL library development command)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_THREADS 1)  # several make the compressed bytes depend on their number

# sinter_debian_package(COMPONENT NAME SECTION SUMMARY TEXT): TEXT in lines of at most 79 columns.
function(sinter_debian_package component name section summary text)
  string(TOUPPER ${component} upper)
  set(documents ${PROJECT_BINARY_DIR}/package/${name})
  file(CONFIGURE OUTPUT ${documents}/changelog @ONLY CONTENT [[
sinter (@PROJECT_VERSION@) unstable; urgency=medium

  * Package of version @PROJECT_VERSION@.

 -- @SINTER_MAINTAINER@  @sinter_date@
]])
  execute_process(COMMAND gzip -9nf changelog WORKING_DIRECTORY ${documents} COMMAND_ERROR_IS_FATAL ANY)
  file(CONFIGURE OUTPUT ${documents}/copyright @ONLY CONTENT [[
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sinter

Files: *
Copyright: 2026 the authors of Sinter
License: Apache-2.0

License: Apache-2.0
 On Debian systems the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
]])
  install(FILES ${documents}/changelog.gz ${documents}/copyright DESTINATION share/doc/${name} COMPONENT ${component})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
endfunction()

if(SINTER_DEBIAN)
  string(TIMESTAMP sinter_date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH
  set(text [[
Sinter takes a chain of operators such as a gated feed-forward layer, searches
for the best plan on NVIDIA Hopper GPUs, writes CUDA C++, compiles it with
NVRTC and keeps the kernels in a cache. Driver and NVRTC are opened at run
time.
]])
  set(library libsinter${PROJECT_VERSION_MAJOR})
  sinter_debian_package(library ${library} libs "run-time fusion of GPU operators, library" "${text}")
  sinter_debian_package(development libsinter-dev libdevel "run-time fusion of GPU operators, headers"
                        "${text}.\nThese are the headers, the pkg-config file and the CMake package.")
  sinter_debian_package(command sinter utils "run-time fusion of GPU operators, command"
                        "${text}.\nThis is the command, which explains, runs, tunes and packs plans.")
  set(control ${PROJECT_BINARY_DIR}/package/control)
  file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
  # CPack also writes scripts that call ldconfig, and has no switch for it.
  file(WRITE ${control}/${library} "${library}: maintscript-calls-ldconfig *\n")
  install(FILES ${control}/${library} DESTINATION share/lintian/overrides COMPONENT library)
  install(FILES ${sinter_sbom} ${sinter_notices} DESTINATION share/doc/${library} COMPONENT library)
  install(FILES ${sinter_notices} DESTINATION share/doc/sinter COMPONENT command)
  set(CPACK_GENERATOR DEB)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${SINTER_MAINTAINER})
  set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${control}/triggers)
  foreach(component LIBRARY COMMAND)  # both open NVRTC by its name
    set(CPACK_DEBIAN_${component}_PACKAGE_SUGGESTS "libnvrtc13 | cuda-nvrtc-13-0")
  endforeach()
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION})")
else()
  install(FILES ${sinter_license} ${sinter_notices} ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION share/doc/sinter COMPONENT library)
  install(FILES ${sinter_sbom} DESTINATION share/doc/sinter COMPONENT library OPTIONAL)
  set(CPACK_GENERATOR TGZ)
endif()
include(CPack)
