// The rows and columns that a kernel of rows walks.
#ifndef SINTER_SRC_STITCH_ROWS_ROW_DOMAIN_H_
#define SINTER_SRC_STITCH_ROWS_ROW_DOMAIN_H_

#include "src/stitch/rows/row_places.h"

namespace sinter {

// Rows of the body's first reduction, or of its first output, cut where they are too long. As
// ReadRows fails.
absl::StatusOr<RowDomain> RowDomainOf(const Chain& body);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_ROWS_ROW_DOMAIN_H_
