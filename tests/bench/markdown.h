// Markdown: a results file as the table of the README, and the figures that goals are stated in.
#pragma once

#include "tests/bench/results.h"

namespace sinter::bench {

// One table a layout.
std::string MarkdownTables(const Results& results);

// Counts: unfused against cuBLASLt, fused against unfused; "never slower".
std::string Summary(const Results& results);

}  // namespace sinter::bench
