// Markdown: a results file as the table of the README, and the figures that goals are stated in.
#pragma once

#include "tests/bench/results.h"

namespace sinter::bench {

// Best times of other systems by problem id, microseconds.
using Peers = std::map<std::string, double>;
// A file of lines "ID MICROSECONDS", # comments. NOT_FOUND, INVALID_ARGUMENT naming the line.
absl::StatusOr<Peers> ReadPeers(const std::string& file);

// One table a layout.
std::string MarkdownTables(const Results& results, const Peers& peers);

// Counts: peers against chosen, unfused against cuBLASLt, fused against unfused; "never slower".
std::string Summary(const Results& results, const Peers& peers);

}  // namespace sinter::bench
