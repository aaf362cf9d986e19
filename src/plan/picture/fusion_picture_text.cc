// A fusion picture as text.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/draw/units.h"
#include "src/plan/picture/fusion_picture.h"

namespace sinter {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kShownOps = 48;  // of one part
constexpr size_t kShownReasons = 40;

std::string Bytes(int64_t bytes) { return AmountText(static_cast<double>(bytes), "B"); }

std::string ReadText(const KernelFusion& fusion, const OpRead& read) {
  const std::string views =
      read.through.empty() ? "" : absl::StrCat(" (", absl::StrJoin(read.through, ", "), ")");
  if (read.op < 0) return fusion.reads[static_cast<size_t>(read.tensor)].place + views;
  return absl::StrCat("%", read.op, views, " ", NameOf(read.by));
}

std::string OpLine(const KernelFusion& fusion, int index) {
  const OpPicture& op = fusion.ops[static_cast<size_t>(index)];
  std::string line = absl::StrFormat("    %%%-3d %-14s %-22s", index, op.name, op.type);
  std::vector<std::string> ends;
  for (const OpRead& read : op.reads) ends.push_back(ReadText(fusion, read));
  if (!ends.empty()) absl::StrAppend(&line, " <- ", absl::StrJoin(ends, ", "));
  for (int out : op.writes) {
    absl::StrAppend(&line, " -> ", fusion.writes[static_cast<size_t>(out)].place);
  }
  if (op.saved_bytes > 0) absl::StrAppend(&line, "  saves ", Bytes(op.saved_bytes));
  line.resize(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string EdgesText(const KernelFusion& fusion) {
  std::vector<std::string> counts;
  for (int i = 0; i < kCompositions; ++i) {
    if (fusion.edges[static_cast<size_t>(i)] == 0) continue;
    counts.push_back(
        absl::StrCat(fusion.edges[static_cast<size_t>(i)], " ", NameOf(Composition(i))));
  }
  return counts.empty() ? "no fused edges" : "fused edges: " + absl::StrJoin(counts, ", ");
}

std::string HandsText(const KernelFusion& fusion) {
  std::vector<std::string> lines;
  for (const HandPicture& hand : fusion.hands) {
    std::string line = absl::StrCat(hand.value, ", ", Bytes(hand.bytes), " at ", hand.offset);
    if (hand.instead >= 0) {
      absl::StrAppend(&line, ", in the slot of ",
                      fusion.hands[static_cast<size_t>(hand.instead)].value);
    }
    lines.push_back(std::move(line));
  }
  if (lines.empty()) return "";
  return absl::StrCat("  handed     in shared memory, of a unit: ", absl::StrJoin(lines, "; "),
                      "\n");
}

std::string PartText(const KernelFusion& fusion, const std::vector<std::vector<int>>& alike) {
  std::string text;
  if (fusion.PartCount() > 1) {
    absl::StrAppend(&text, "   ", alike.size(),
                    alike.size() == 1 ? " part:\n" : " parts alike; the first:\n");
  }
  const std::vector<int>& ops = alike.front();
  for (size_t i = 0; i < std::min(ops.size(), kShownOps); ++i) text += OpLine(fusion, ops[i]);
  if (ops.size() > kShownOps) {
    absl::StrAppend(&text, "    and ", ops.size() - kShownOps, " more ops\n");
  }
  return text;
}

// Wraps `text` at kColumns; later lines are indented.
std::string Indented(absl::string_view text, size_t indent) {
  std::string out;
  while (text.size() + indent > kColumns) {
    const size_t cut = text.rfind(' ', kColumns - indent);
    if (cut == absl::string_view::npos || cut == 0) break;
    absl::StrAppend(&out, std::string(indent, ' '), text.substr(0, cut), "\n");
    text.remove_prefix(cut + 1);
  }
  return absl::StrCat(out, std::string(indent, ' '), text, "\n");
}

}  // namespace

std::string KernelFusionText(const KernelFusion& fusion) {
  if (fusion.ops.empty()) return "";
  const int parts = fusion.PartCount();
  std::string text = absl::StrCat(
      "  fused      ", fusion.ops.size(), fusion.ops.size() == 1 ? " op" : " ops",
      fusion.inlined > 0 ? absl::StrCat(" and ", fusion.inlined, " that their readers compute")
                         : "",
      parts > 1 ? " in " : "", parts > 1 ? absl::StrCat(parts, " packed parts") : "", "; ",
      EdgesText(fusion), "\n  bytes      ", Bytes(fusion.border_bytes), " at the border, ",
      Bytes(fusion.saved_bytes), " saved by fusion\n", HandsText(fusion));
  for (const auto& alike : fusion.parts) text += PartText(fusion, alike);
  return text;
}

std::string ApartText(const FusionPicture& picture) {
  const std::vector<FusionPicture::Reason> reasons = picture.Reasons();
  if (reasons.empty()) return "";
  std::string text = "not fused:\n";
  for (size_t i = 0; i < std::min(reasons.size(), kShownReasons); ++i) {
    const FusionPicture::Reason& reason = reasons[i];
    const auto numbers = [&](int group) {
      return KernelNumbers(picture.equal[static_cast<size_t>(group)]);
    };
    absl::StrAppend(&text, "  kernel ", numbers(reason.from_group), " | kernel ",
                    numbers(reason.to_group),
                    reason.count > 1 ? absl::StrCat(" (", reason.count, " times)") : "", ": ",
                    reason.bytes > 0 ? Bytes(reason.bytes) : "nothing", " handed over\n",
                    Indented(reason.why, 4));
  }
  if (reasons.size() > kShownReasons) {
    absl::StrAppend(&text, "  and ", reasons.size() - kShownReasons, " more\n");
  }
  return text;
}

}  // namespace sinter
