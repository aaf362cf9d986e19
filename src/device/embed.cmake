# cmake -DSOURCE=<src/device> -DOUTPUT=<device_library.cc> -P embed.cmake: writes every .cuh below SOURCE as a string, with the digest
# of what it reaches by #include.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/*.cuh)
list(SORT headers)

# includes_NAME: those that NAME includes itself. line_NAME: its name and the SHA-256 of its bytes.
foreach(name ${headers})
  file(STRINGS ${SOURCE}/${name} lines REGEX "^[ \t]*#[ \t]*include[ \t]*\"")
  string(REGEX REPLACE "[ \t]*#[ \t]*include[ \t]*\"([^\"]*)\"[^;]*" "\\1" includes_${name} "${lines}")
  file(SHA256 ${SOURCE}/${name} digest)
  set(line_${name} "${name} ${digest}\n")
endforeach()

# Sets `out` to the digest of the lines of all that `name` reaches, itself included, in the order of their names, as bytes of C.
function(reached_digest name out)
  set(reached "")
  set(pending ${name})
  while(pending)
    list(POP_BACK pending next)
    if(next IN_LIST headers AND NOT next IN_LIST reached)
      list(APPEND reached ${next})
      list(APPEND pending ${includes_${next}})
    endif()
  endwhile()
  list(SORT reached)
  set(lines "")
  foreach(next ${reached})
    string(APPEND lines "${line_${next}}")
  endforeach()
  string(SHA256 digest "${lines}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," digest "${digest}")
  set(${out} "${digest}" PARENT_SCOPE)
endfunction()

set(table "")
set(text "")
set(index 0)
foreach(name ${headers})
  file(READ ${SOURCE}/${name} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND text "const unsigned char kHeader${index}[] = {${bytes}0};\n")
  reached_digest(${name} digest)
  string(APPEND table "    {\"${name}\", reinterpret_cast<const char*>(kHeader${index}), ${size}, {${digest}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT}.new "// Generated from src/device by embed.cmake.
#include \"src/device/device_library.h\"

namespace sinter {
namespace {
${text}
const DeviceHeader kHeaders[] = {
${table}};
}  // namespace

const DeviceHeader* DeviceHeaders(size_t* count) {
  *count = sizeof(kHeaders) / sizeof(kHeaders[0]);
  return kHeaders;
}

}  // namespace sinter
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
