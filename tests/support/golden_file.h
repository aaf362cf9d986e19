// Golden files: texts that are committed and compared byte for byte.
#pragma once

#include <string>

namespace sinter::testing {

// Expects that the file at `path`, from the repository's root, holds `text`. SINTER_UPDATE_GOLDEN=1
// writes it instead;
// `./dev golden --update` does so for every golden test.
void ExpectGoldenFile(const std::string& path, const std::string& text);

// Expects that the list at `path`, a name and a SHA-256 a line, says of `name` what `text` has; or
// writes its line.
void ExpectGoldenDigest(const std::string& path, const std::string& name, const std::string& text);

}  // namespace sinter::testing
