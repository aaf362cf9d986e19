// The ops that a kernel fuses.
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/explain/explain.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/plan/stitch_family.h"
#include "src/stitch/phases.h"

namespace sinter {
namespace {

constexpr size_t kShownWay = 6;  // ops between a value and its reader

// Fills in the ops of a kernel.
class Teller {
 public:
  Teller(const Chain& body, const StitchGraph& graph, std::vector<Composition> compositions,
         KernelDescription* out)
      : body_(body), graph_(graph), compositions_(std::move(compositions)), out_(*out) {}

  void Tell() {
    for (int v = 0; v < graph_.size(); ++v) AddOp(v);
    CountInlined();
    AddWrites();
    CountWhatIdsName();
    AddSharedInputs();
    AddParts();
    NameHands();
  }

 private:
  OpPicture& op(int i) { return out_.ops[static_cast<size_t>(i)]; }

  // The ops of a vertex between each value that it reads and its result, from the value on. A value
  // that is read in several ways has the path of the latest op.
  using Ways = std::map<ValueId, std::vector<std::string>, std::greater<ValueId>>;
  Ways WaysTo(ValueId root) const {
    Ways open{{root, {}}}, sources;
    while (!open.empty()) {
      const auto [value, way] = *open.begin();  // users before operands
      open.erase(open.begin());
      const Op& op = body_.op(value);
      if (value != root && (op.kind == OpKind::kInput || !graph_.IsInlined(value))) {
        sources.emplace(value, way);
        continue;
      }
      std::vector<std::string> longer = way;
      if (value != root && longer.size() < kShownWay) longer.insert(longer.begin(), LabelOf(op));
      for (ValueId operand : op.operands) open.try_emplace(operand, longer);
    }
    return sources;
  }

  void CountInlined() {
    for (const Op& op : body_.ops()) out_.inlined += op.kind != OpKind::kInput;
    out_.inlined -= static_cast<int>(out_.ops.size());
  }

  // Vertices come after the vertices that they read.
  void AddOp(int v) {
    const StitchVertex& vertex = graph_.vertex(v);
    const Op& root = body_.op(vertex.root());
    const StitchTensor& result = graph_.tensor(vertex.tensor);
    OpPicture picture;
    picture.name = LabelOf(root);
    picture.type = ToString(root.type);
    if (!result.stored && !result.consumers.empty()) picture.saved_bytes = result.bytes;
    const Ways ways = WaysTo(vertex.root());
    for (const StitchRead& read : vertex.reads) {
      const StitchTensor& tensor = graph_.tensor(read.tensor);
      const auto way = ways.find(tensor.value);
      std::vector<std::string> through;
      if (way != ways.end()) through = way->second;
      if (tensor.vertex < 0) {
        const int input = body_.op(tensor.value).input;
        picture.reads.push_back({-1, input, Composition::kThread, through});
        input_bytes_[input] += read.bytes;
        continue;
      }
      const Composition by = compositions_[static_cast<size_t>(tensor.value)];
      picture.reads.push_back({tensor.vertex, -1, by, through});
      ++out_.edges[static_cast<size_t>(by)];
      op(tensor.vertex).saved_bytes += read.bytes;
    }
    out_.ops.push_back(std::move(picture));
  }

  void AddWrites() {
    for (int i = 0; i < body_.num_outputs(); ++i) {
      const int v = graph_.VertexOf(body_.outputs()[static_cast<size_t>(i)].value);
      if (v >= 0) op(v).writes.push_back(i);
    }
  }

  // Ids name a part of an input, or of an output that is written in place: that part is at the
  // border.
  void CountWhatIdsName() {
    for (int i = 0; i < body_.num_outputs(); ++i) {
      const ChainOutput& output = body_.outputs()[static_cast<size_t>(i)];
      if (!WritesInPlace(body_, output)) continue;
      const Op& rows = body_.op(body_.op(output.value).operands[2]);
      const int64_t written = ElementsOf(rows, graph_.bucket()) * SizeOf(rows.type.dtype);
      int64_t& bytes = out_.writes[static_cast<size_t>(i)].bytes;
      out_.border_bytes -= std::max<int64_t>(0, bytes - written);
      bytes = std::min(bytes, written);
    }
    for (ValueId id = 0; id < static_cast<ValueId>(body_.ops().size()); ++id) {
      const Op& op = body_.op(id);
      if (op.kind != OpKind::kGather && !WritesInPlace(body_, id)) continue;
      ValueId x = op.operands[0];
      while (IsView(body_.op(x)) || body_.op(x).kind == OpKind::kCast) {
        x = body_.op(x).operands[0];
      }
      const auto read = input_bytes_.find(body_.op(x).input);
      if (read == input_bytes_.end()) continue;
      int64_t& bytes = out_.reads[static_cast<size_t>(read->first)].bytes;
      const int64_t less = std::max<int64_t>(0, bytes - read->second);
      bytes -= less;
      out_.border_bytes -= less;
    }
  }

  // An input that several ops read is read once; adds up the bytes that the ops save.
  void AddSharedInputs() {
    for (const OpPicture& one : out_.ops) out_.saved_bytes += one.saved_bytes;
    for (const auto& [input, bytes] : input_bytes_) {
      const int64_t once = out_.reads[static_cast<size_t>(input)].bytes;
      out_.saved_bytes += std::max<int64_t>(0, bytes - once);
    }
  }

  int Find(int i) {
    while (parent_[static_cast<size_t>(i)] != i) i = parent_[static_cast<size_t>(i)];
    return i;
  }

  void AddParts() {
    for (size_t i = 0; i < out_.ops.size(); ++i) {
      parent_.push_back(static_cast<int>(i));
      for (const OpRead& read : out_.ops[i].reads) {
        if (read.op < 0) continue;
        const int a = Find(static_cast<int>(i)), b = Find(read.op);
        parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
      }
    }
    std::map<int, std::vector<int>> parts;
    for (size_t i = 0; i < out_.ops.size(); ++i) {
      parts[Find(static_cast<int>(i))].push_back(static_cast<int>(i));
    }
    std::map<std::string, size_t> known;
    for (auto& [first, ops] : parts) {
      const auto [at, fresh] = known.try_emplace(ShapeOf(ops), out_.parts.size());
      if (fresh) out_.parts.emplace_back();
      out_.parts[at->second].push_back(std::move(ops));
    }
  }

  void NameHands() {
    for (HandPicture& hand : out_.hands) hand.value = NameOfHanded(hand.id);
  }

  std::string NameOfHanded(ValueId id) const {
    const Op& op = body_.op(id);
    const int vertex = graph_.VertexOf(id);
    if (op.input >= 0) return out_.reads[static_cast<size_t>(op.input)].ShortName();
    return vertex < 0 ? LabelOf(op) : absl::StrCat("%", vertex, " ", LabelOf(op));
  }

  // A key of parts that differ only in extents: their ops and hand-overs.
  std::string ShapeOf(const std::vector<int>& ops) {
    std::string shape;
    for (int i : ops) {
      absl::StrAppend(&shape, op(i).name, op(i).writes.size());
      for (const OpRead& read : op(i).reads) {
        if (read.op < 0) continue;
        const auto at = std::lower_bound(ops.begin(), ops.end(), read.op) - ops.begin();
        absl::StrAppend(&shape, " ", at, NameOf(read.by));
      }
      shape += ";";
    }
    return shape;
  }

  const Chain& body_;
  const StitchGraph& graph_;
  const std::vector<Composition> compositions_;
  KernelDescription& out_;
  std::map<int, int64_t> input_bytes_;  // by input: bytes that only its reading ops would read
  std::vector<int> parent_;
};

}  // namespace

void AddOps(const KernelSpec& spec, int64_t bucket, KernelDescription* kernel) {
  const Chain& body = StitchOf(spec)->body;
  const absl::StatusOr<std::vector<Composition>> by = CompositionsOf(*StitchOf(spec));
  StitchGraphOptions options;
  options.contract = false;
  const absl::StatusOr<StitchGraph> graph = StitchGraph::Make(body, bucket, {}, options);
  if (by.ok() && graph.ok()) Teller(body, *graph, *by, kernel).Tell();
}

}  // namespace sinter
