# cmake -DSOURCE=<src/device> -DOUTPUT=<device_library.cc> -P embed.cmake: writes every .cuh below SOURCE as a string.
file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/*.cuh)
list(SORT headers)
set(table "")
set(text "")
set(index 0)
foreach(name ${headers})
  file(READ ${SOURCE}/${name} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND text "const unsigned char kHeader${index}[] = {${bytes}0};\n")
  string(APPEND table "    {\"${name}\", reinterpret_cast<const char*>(kHeader${index}), ${size}},\n")
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
