/* The least that proves an installed package: the header compiles as C99, the library links and is
 * of the header's version. */
#include <sinter/sinter.h>
#include <stdio.h>

int main(void) {
  const uint32_t header =
      SINTER_VERSION_MAJOR * 10000 + SINTER_VERSION_MINOR * 100 + SINTER_VERSION_PATCH;
  if (sinter_version() != header) {
    fprintf(stderr, "the header is of version %u, the library of %u\n", (unsigned)header,
            (unsigned)sinter_version());
    return 1;
  }
  printf("%s\n", sinter_build_info());
  return 0;
}
