#include "src/fusion/stitch/stitch_graph.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "src/base/refusal.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status SharedBufferError(const Chain& chain) {
  for (size_t i = 0; i < chain.outputs().size(); ++i) {
    const ChainOutput& out = chain.outputs()[i];
    if (out.alias_input < 0) continue;
    return WithOp(FailedPrecondition("output ", i, " (op ", out.value, ", ",
                                     NameOf(chain.op(out.value)), ") shares the buffer of input ",
                                     out.alias_input, ", which is read after it"),
                  out.value);
  }
  return absl::InternalError("the graph has a cycle");
}

constexpr size_t kNearReaders = 4;

}  // namespace

class StitchGraphMaker {
 public:
  StitchGraphMaker(const Chain& chain, int64_t bucket, const std::vector<GraphRun>& runs,
                   const StitchGraphOptions& options, bool contract)
      : chain_(chain),
        runs_(runs),
        roles_(RolesOf(chain, bucket, runs)),
        contraction_(chain, bucket, roles_, contract),
        pace_(options.pace),
        through_(roles_.inlined),
        contracted_(chain.ops().size(), false) {
    graph_.chain_ = &chain;
    graph_.bucket_ = bucket;
    graph_.inlined_ = roles_.inlined;
    graph_.stored_dtype_ = roles_.stored_dtype;
    graph_.vertex_of_.assign(chain.ops().size(), -1);
    tensor_of_.assign(chain.ops().size(), -1);
  }

  // False when the vertices have no order.
  bool Run() {
    AddInputTensors();
    AddAuxTensors();
    for (ValueId value = 0; value < static_cast<ValueId>(chain_.ops().size()); ++value) {
      if (roles_.vertex[At(value)]) AddVertex(value);
      if (read_visits_ <= StitchGraph::kMaxReadVisits) continue;
      endless_ = value;
      return true;
    }
    AddTensorEdges();
    AddAliasEdges();
    if (!Renumber()) return false;
    if (graph_.size() <= StitchGraph::kMaxVertices) FillReachability();
    return true;
  }

  // The op at which kMaxReadVisits was exceeded; -1: none, the graph is complete.
  ValueId endless() const { return endless_; }
  StitchGraph Take() { return std::move(graph_); }

 private:
  static size_t At(ValueId value) { return static_cast<size_t>(value); }

  int64_t StoredBytes(ValueId value) const {
    return ElementsOf(chain_.op(value), graph_.bucket_) * SizeOf(roles_.stored_dtype[At(value)]);
  }

  int AddTensor(ValueId value, int vertex) {
    StitchTensor tensor;
    tensor.value = value;
    tensor.dtype = roles_.stored_dtype[At(value)];
    tensor.bytes = StoredBytes(value);
    tensor.vertex = vertex;
    tensor.stored = vertex < 0 || roles_.stored[At(value)] || roles_.run[At(value)] >= 0;
    tensor.cold = vertex < 0;
    for (const ChainOutput& out : chain_.outputs()) tensor.cold |= out.value == value;
    graph_.tensors_.push_back(std::move(tensor));
    return graph_.num_tensors() - 1;
  }

  void AddInputTensors() {
    for (int i = 0; i < chain_.num_inputs(); ++i) {
      tensor_of_[At(chain_.input(i))] = AddTensor(chain_.input(i), -1);
    }
  }

  // Auxiliary results of runs that others read: they may come before the run's end, which makes the
  // run's vertex.
  void AddAuxTensors() {
    for (const GraphRun& run : runs_) {
      const int number = static_cast<int>(&run - runs_.data());
      for (const ValueId aux : run.aux) {
        const std::vector<ValueId>& users = roles_.users.Of(aux);
        const bool read = std::any_of(users.begin(), users.end(),
                                      [&](ValueId user) { return roles_.run[At(user)] != number; });
        if (!read) continue;
        const int tensor = AddTensor(aux, -1);
        graph_.tensors_[static_cast<size_t>(tensor)].cold = OutputOf(chain_, aux) >= 0;
        stored_tensor_of_[aux] = tensor_of_[At(aux)] = tensor;
      }
    }
  }

  void AddVertex(ValueId value) {
    const int run = roles_.run[At(value)];
    const VertexReads reads = run >= 0
                                  ? RunReads(runs_[static_cast<size_t>(run)])
                                  : ReadsOf(chain_, value, graph_.bucket_, through_, contracted_);
    Step(pace_, static_cast<int64_t>(1 + reads.sources.size() + reads.along.size()));
    read_visits_ += reads.visits;
    if (run < 0 && contraction_.Joins(value, reads)) {
      contracted_[At(value)] = through_[At(value)] = true;
      return;
    }
    StitchVertex vertex;
    vertex.values = run >= 0 ? runs_[static_cast<size_t>(run)].values : reads.along;
    if (run < 0) {
      std::reverse(vertex.values.begin(), vertex.values.end());
      vertex.values.push_back(value);
    }
    vertex.op_class = run >= 0 ? OpClass::kProduct : ClassOf(chain_, value);
    vertex.opaque = vertex.op_class == OpClass::kProduct;
    Describe(value, &vertex);
    const int index = graph_.size();
    vertex.tensor = AddTensor(value, index);
    // Readers that compute an inlined value themselves never read its stored tensor; products do.
    stored_tensor_of_[value] = vertex.tensor;
    const ValueId scale = run >= 0 ? runs_[static_cast<size_t>(run)].scale : -1;
    if (scale >= 0) stored_tensor_of_[scale] = tensor_of_[At(scale)] = AddTensor(scale, index);
    if (run >= 0) {
      for (const ValueId aux : runs_[static_cast<size_t>(run)].aux) {
        const auto stored = stored_tensor_of_.find(aux);
        if (stored == stored_tensor_of_.end()) continue;
        graph_.tensors_[static_cast<size_t>(stored->second)].vertex = index;
      }
    }
    if (!roles_.inlined[At(value)]) tensor_of_[At(value)] = vertex.tensor;
    for (ValueId member : vertex.values) graph_.vertex_of_[At(member)] = index;
    AddReads(reads, run >= 0, &vertex);
    graph_.vertices_.push_back(std::move(vertex));
  }

  VertexReads RunReads(const GraphRun& run) const {
    VertexReads reads;
    for (const ProductOperand& operand : run.matched.operands) {
      const int64_t elements = ElementsOf(chain_.op(operand.value), graph_.bucket_);
      reads.sources.push_back({operand.value, elements, 1});
    }
    return reads;
  }

  void Describe(ValueId value, StitchVertex* vertex) const {
    const Op& op = chain_.op(value);
    vertex->iteration = ElementsOf(op, graph_.bucket_);
    if (op.kind == OpKind::kScatter) {
      vertex->iteration = ElementsOf(chain_.op(op.operands[2]), graph_.bucket_);
    }
    vertex->result_units = vertex->iteration;
    if (op.kind != OpKind::kReduce && !TakesRow(op)) return;
    vertex->iteration = ElementsOf(chain_.op(op.operands[0]), graph_.bucket_);
    vertex->result_units = ReducedUnits(chain_, op, graph_.bucket_);
  }

  void AddReads(const VertexReads& reads, bool from_memory, StitchVertex* vertex) {
    for (const SourceRead& read : reads.sources) {
      const OpKind kind = chain_.op(read.source).kind;
      const bool constant = kind == OpKind::kScalar || kind == OpKind::kIota;
      const auto stored = stored_tensor_of_.find(read.source);
      // A run reads even a constant from memory: a kernel has to store it before.
      const bool as_stored = from_memory && stored != stored_tensor_of_.end();
      if (constant && !as_stored) continue;
      const int tensor = as_stored ? stored->second : tensor_of_[At(read.source)];
      const int64_t size = SizeOf(graph_.tensor(tensor).dtype);
      vertex->reads.push_back({tensor, read.elements * size, read.units});
    }
    std::sort(vertex->reads.begin(), vertex->reads.end(),
              [](const StitchRead& a, const StitchRead& b) { return a.tensor < b.tensor; });
  }

  void AddEdge(int from, int to) {
    if (from == to) return;
    graph_.vertices_[static_cast<size_t>(to)].producers.push_back(from);
    graph_.vertices_[static_cast<size_t>(from)].consumers.push_back(to);
  }

  void AddTensorEdges() {
    for (int v = 0; v < graph_.size(); ++v) {
      for (const StitchRead& read : graph_.vertex(v).reads) {
        StitchTensor& tensor = graph_.tensors_[static_cast<size_t>(read.tensor)];
        tensor.consumers.push_back(v);
        if (tensor.vertex >= 0) AddEdge(tensor.vertex, v);
      }
    }
  }

  // A reader of an input comes before the vertex that writes an output into its buffer, or shares
  // its kernel.
  void AddAliasEdges() {
    for (const ChainOutput& out : chain_.outputs()) {
      if (out.alias_input < 0) continue;
      const int writer = graph_.VertexOf(out.value);
      const int tensor = tensor_of_[At(chain_.input(out.alias_input))];
      for (int reader : graph_.tensor(tensor).consumers) AddEdge(reader, writer);
    }
  }

  static void SortUnique(std::vector<int>* list) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }

  // Topological order; of the vertices that can come next, the one with the smallest result first.
  bool Renumber() {
    const auto count = static_cast<size_t>(graph_.size());
    std::vector<int> missing(count), number(count, -1);
    std::priority_queue<std::pair<ValueId, int>, std::vector<std::pair<ValueId, int>>,
                        std::greater<std::pair<ValueId, int>>>
        ready;
    for (size_t v = 0; v < count; ++v) {
      SortUnique(&graph_.vertices_[v].producers);
      SortUnique(&graph_.vertices_[v].consumers);
      missing[v] = static_cast<int>(graph_.vertices_[v].producers.size());
      if (missing[v] == 0) ready.emplace(graph_.vertices_[v].root(), static_cast<int>(v));
    }
    int next = 0;
    while (!ready.empty()) {
      const int v = ready.top().second;
      ready.pop();
      number[static_cast<size_t>(v)] = next++;
      for (int consumer : graph_.vertex(v).consumers) {
        if (--missing[static_cast<size_t>(consumer)] == 0) {
          ready.emplace(graph_.vertex(consumer).root(), consumer);
        }
      }
    }
    if (next != graph_.size()) return false;
    ApplyNumbers(number);
    return true;
  }

  void ApplyNumbers(const std::vector<int>& number) {
    const auto translate = [&](std::vector<int>* list) {
      for (int& v : *list) v = number[static_cast<size_t>(v)];
      SortUnique(list);
    };
    std::vector<StitchVertex> ordered(graph_.vertices_.size());
    for (size_t v = 0; v < ordered.size(); ++v) {
      translate(&graph_.vertices_[v].producers);
      translate(&graph_.vertices_[v].consumers);
      ordered[static_cast<size_t>(number[v])] = std::move(graph_.vertices_[v]);
    }
    graph_.vertices_ = std::move(ordered);
    for (StitchTensor& tensor : graph_.tensors_) {
      if (tensor.vertex >= 0) tensor.vertex = number[static_cast<size_t>(tensor.vertex)];
      translate(&tensor.consumers);
    }
    for (int& v : graph_.vertex_of_) {
      if (v >= 0) v = number[static_cast<size_t>(v)];
    }
  }

  void FillReachability() {
    const int count = graph_.size();
    graph_.before_.assign(static_cast<size_t>(count), NodeSet(count));
    graph_.after_.assign(static_cast<size_t>(count), NodeSet(count));
    for (int v = 0; v < count; ++v) {
      for (int p : graph_.vertex(v).producers) {
        graph_.before_[static_cast<size_t>(v)].Unite(graph_.Before(p));
        graph_.before_[static_cast<size_t>(v)].Add(p);
      }
    }
    for (int v = count - 1; v >= 0; --v) {
      for (int c : graph_.vertex(v).consumers) {
        graph_.after_[static_cast<size_t>(v)].Unite(graph_.After(c));
        graph_.after_[static_cast<size_t>(v)].Add(c);
      }
    }
  }

  const Chain& chain_;
  const std::vector<GraphRun>& runs_;
  const ValueRoles roles_;
  const Contraction contraction_;
  Pace* const pace_;
  std::vector<bool> through_;                // computed by its readers
  std::vector<bool> contracted_;             // has joined its reader's vertex
  std::vector<int> tensor_of_;               // tensor that a reader of the value reads; -1
  std::map<ValueId, int> stored_tensor_of_;  // tensor that a vertex stores
  StitchGraph graph_;
  int64_t read_visits_ = 0;
  ValueId endless_ = -1;
};

absl::StatusOr<StitchGraph> StitchGraph::Make(const Chain& chain, int64_t bucket,
                                              const std::vector<GraphRun>& runs,
                                              const StitchGraphOptions& options) {
  for (const bool contract : {options.contract, false}) {
    StitchGraphMaker maker(chain, bucket, runs, options, contract);
    if (!maker.Run()) continue;
    if (maker.endless() >= 0) {
      return OpRefused(maker.endless(), " (", NameOf(chain.op(maker.endless())),
                       "): the chain's ops are read through more than ", kMaxReadVisits,
                       " views of others");
    }
    StitchGraph graph = maker.Take();
    if (graph.size() <= kMaxVertices) return graph;
    return FailedPrecondition("the chain has ", graph.size(), " memory-intensive ops, at most ",
                              kMaxVertices, " are planned together");
  }
  return SharedBufferError(chain);
}

bool StitchGraph::IsOf(int t, const NodeSet& vertices) const {
  return tensor(t).vertex >= 0 && vertices.Contains(tensor(t).vertex);
}

bool StitchGraph::Leaves(int t, const NodeSet& vertices) const {
  const std::vector<int>& users = tensor(t).consumers;
  return tensor(t).stored || std::any_of(users.begin(), users.end(),
                                         [&](int user) { return !vertices.Contains(user); });
}

std::vector<NodeSet> StitchGraph::ComponentsOf(const NodeSet& vertices) const {
  std::map<int, int> parent;
  const auto find = [&](int v) {
    while (parent.at(v) != v) v = parent.at(v);
    return v;
  };
  vertices.ForEach([&](int v) {
    parent[v] = v;
    for (int p : vertex(v).producers) {
      if (!vertices.Contains(p)) continue;
      const int a = find(p), b = find(v);
      parent[std::max(a, b)] = std::min(a, b);
    }
  });
  std::map<int, NodeSet> groups;
  for (const auto& [v, unused] : parent) {
    groups.try_emplace(find(v), NodeSet(size())).first->second.Add(v);
  }
  std::vector<NodeSet> list;
  for (auto& [first, group] : groups) list.push_back(std::move(group));
  return list;
}

std::vector<std::vector<int>> NeighboursOf(const StitchGraph& graph) {
  std::vector<std::set<int>> sets(static_cast<size_t>(graph.size()));
  const auto link = [&](int a, int b) {
    if (graph.vertex(a).opaque || graph.vertex(b).opaque) return;
    sets[static_cast<size_t>(a)].insert(b);
    sets[static_cast<size_t>(b)].insert(a);
  };
  for (int v = 0; v < graph.size(); ++v) {
    for (int c : graph.vertex(v).consumers) link(v, c);
  }
  for (int t = 0; t < graph.num_tensors(); ++t) {
    std::vector<int> readers;
    for (int v : graph.tensor(t).consumers) {
      if (!graph.vertex(v).opaque) readers.push_back(v);
    }
    for (size_t i = 0; i < readers.size(); ++i) {
      for (size_t j = i + 1; j < readers.size() && j <= i + kNearReaders; ++j) {
        link(readers[i], readers[j]);
      }
    }
  }
  std::vector<std::vector<int>> lists;
  for (const std::set<int>& set : sets) lists.emplace_back(set.begin(), set.end());
  return lists;
}

}  // namespace sinter
