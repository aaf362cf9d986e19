// Regular expressions of POSIX (extended, with glibc's \b, \s and \w). <regex> costs a program five
// seconds of compilation.
#pragma once

#include <regex.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace sinter {

// A match: the whole of it, then its groups. A group that takes no part is empty.
using Match = std::vector<std::string>;

// The matches in a text, from left to right. It throws for a pattern that regcomp refuses.
inline std::vector<Match> Matches(const std::string& text, const std::string& pattern) {
  regex_t regex;
  if (regcomp(&regex, pattern.c_str(), REG_EXTENDED) != 0) throw std::runtime_error(pattern);
  std::vector<Match> matches;
  std::vector<regmatch_t> groups(regex.re_nsub + 1);
  const char* at = text.c_str();
  while (regexec(&regex, at, groups.size(), groups.data(), at == text.c_str() ? 0 : REG_NOTBOL) ==
         0) {
    Match& match = matches.emplace_back();
    for (const regmatch_t& group : groups) {
      match.push_back(group.rm_so < 0 ? "" : std::string(at + group.rm_so, at + group.rm_eo));
    }
    if (groups[0].rm_eo == 0) break;
    at += groups[0].rm_eo;
  }
  regfree(&regex);
  return matches;
}

// The match that is the whole text; empty: none.
inline Match WholeMatch(const std::string& text, const std::string& pattern) {
  const std::vector<Match> matches = Matches(text, "^(" + pattern + ")$");
  return matches.empty() ? Match() : Match(matches[0].begin() + 1, matches[0].end());
}

// The number of the op that a message names first; -1: none.
inline int OpInMessage(const std::string& message) {
  const std::vector<Match> found = Matches(message, "\\bop ([0-9]{1,7})\\b");
  return found.empty() ? -1 : std::stoi(found[0][1]);
}

}  // namespace sinter
