// Row independence: whether a chain can be computed a few rows of M at a time.
#ifndef SINTER_SRC_REFERENCE_ROWS_H_
#define SINTER_SRC_REFERENCE_ROWS_H_

#include <cstdint>
#include <string>

#include "src/chain/chain.h"

namespace sinter::reference {

// Empty when every value has M at most once and no op mixes rows of M; else the first op that does,
// in words.
std::string WhyRowsMix(const Chain& chain);

// Rows per pass that keep one intermediate value within about 64 MiB, at least 64. For
// row-independent chains.
int64_t RowsPerPass(const Chain& chain, int64_t rows);

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_ROWS_H_
