#include "src/cli/suggest.h"

#include "src/cli/handles.h"

namespace sinter::cli {

std::string Nearest(const std::string& word, const std::vector<std::string>& known) {
  std::string nearest;
  const std::string lines = Join(known, "\n");
  const Outcome asked = AbiText(&nearest, [&](sinter_x_text** out, sinter_error** error) {
    return sinter_x_nearest(word.c_str(), lines.c_str(), out, error);
  });
  return asked.ok() ? nearest : std::string();
}

std::string DidYouMean(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(word, known);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}

std::string Join(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

}  // namespace sinter::cli
