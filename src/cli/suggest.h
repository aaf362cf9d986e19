// Did-you-mean.
#ifndef SINTER_SRC_CLI_SUGGEST_H_
#define SINTER_SRC_CLI_SUGGEST_H_

#include <string>
#include <vector>

namespace sinter::cli {

// The nearest of `known`; "" when none is near enough to be meant.
std::string Nearest(const std::string& word, const std::vector<std::string>& known);
// "; did you mean \"run\"?" or "".
std::string DidYouMean(const std::string& word, const std::vector<std::string>& known);
std::string Join(const std::vector<std::string>& words, const std::string& separator);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_SUGGEST_H_
