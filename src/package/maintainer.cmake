# SINTER_MAINTAINER: the maintainer of the Debian packages. The builder is the maintainer, and sets it as for Debian's own tools: by
# DEBFULLNAME and DEBEMAIL. Without them an address that nobody has (RFC 2606).
if("$ENV{DEBEMAIL}" MATCHES "<")
  set(maintainer "$ENV{DEBEMAIL}")
elseif(NOT "$ENV{DEBEMAIL}" STREQUAL "" AND NOT "$ENV{DEBFULLNAME}" STREQUAL "")
  set(maintainer "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
else()
  set(maintainer "Sinter maintainers <maintainers@sinter.invalid>")
endif()
set(SINTER_MAINTAINER "${maintainer}" CACHE STRING "who answers for the Debian packages: Name <user@host.domain>")
if(SINTER_DEBIAN AND NOT SINTER_MAINTAINER MATCHES "^[^][<>(),@\n]*[^][<>(),@ \n] <[^][<>(),@ \n]+@[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)+>$")
  message(FATAL_ERROR "SINTER_MAINTAINER is \"${SINTER_MAINTAINER}\", must be \"Name <user@host.domain>\"")
endif()
