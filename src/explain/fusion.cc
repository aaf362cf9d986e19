// What the kernels of a plan fuse, and why there are not fewer.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/explain/explain.h"
#include "src/fusion/stitch/evaluators.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

class Joiner {
 public:
  // Adds the ops of `named`; returns their values.
  absl::StatusOr<std::vector<ValueId>> Add(const NamedBody& named) {
    const Chain& body = *named.body;
    std::vector<ValueId> ids;
    for (Op op : body.ops()) {
      if (op.kind == OpKind::kInput) {
        SINTER_ASSIGN_OR_RETURN(const ValueId id,
                                Input(op, named.tensors[static_cast<size_t>(op.input)]));
        ids.push_back(id);
        continue;
      }
      for (ValueId& operand : op.operands) operand = ids[static_cast<size_t>(operand)];
      SINTER_ASSIGN_OR_RETURN(const ValueId id, Replay(builder_, op, false));
      ids.push_back(id);
    }
    for (int i = 0; i < body.num_outputs(); ++i) {
      const ValueId value = body.outputs()[static_cast<size_t>(i)].value;
      made_[TensorOf(named, i)] = ids[static_cast<size_t>(value)];
    }
    return ids;
  }

  absl::Status AddOutputs(const NamedBody& named, const std::vector<ValueId>& ids,
                          const std::set<int>* wanted) {
    for (int i = 0; i < named.body->num_outputs(); ++i) {
      if (wanted != nullptr && wanted->count(TensorOf(named, i)) == 0) continue;
      const ChainOutput& out = named.body->outputs()[static_cast<size_t>(i)];
      OutputOptions options;
      options.strides = out.strides;
      if (out.alias_input >= 0) {
        const auto read = read_.find(named.tensors[static_cast<size_t>(out.alias_input)]);
        if (read != read_.end()) options.alias = read->second;
      }
      SINTER_RETURN_IF_ERROR(builder_.Output(ids[static_cast<size_t>(out.value)], options));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Chain> Finish() { return builder_.Finish(); }

 private:
  static int TensorOf(const NamedBody& named, int output) {
    return named.tensors[static_cast<size_t>(named.body->num_inputs() + output)];
  }

  absl::StatusOr<ValueId> Input(const Op& op, int tensor) {
    for (const auto* known : {&made_, &read_}) {
      const auto found = known->find(tensor);
      if (found != known->end() && builder_.TypeOf(found->second) == op.type) return found->second;
    }
    InputOptions options;
    options.constant = op.constant;
    options.strides = op.strides;
    SINTER_ASSIGN_OR_RETURN(const ValueId id, builder_.Input(op.type, options));
    read_[tensor] = id;
    return id;
  }

  ChainBuilder builder_;
  std::map<int, ValueId> made_, read_;  // by tensor
};

const Chain* BodyOf(const PlannedKernel& kernel) {
  const StitchSpec* const stitch = StitchOf(kernel.spec);
  return stitch == nullptr ? nullptr : &stitch->body;
}

// By kernel: all kernels that need it.
std::vector<NodeSet> NeededBy(const PlanTensors& tensors) {
  const int count = static_cast<int>(tensors.readers.size());
  std::vector<NodeSet> after(static_cast<size_t>(count), NodeSet(count));
  for (int i = count; i-- > 0;) {
    NodeSet& own = after[static_cast<size_t>(i)];
    for (int reader : tensors.readers[static_cast<size_t>(i)]) {
      own.Add(reader);
      own.Unite(after[static_cast<size_t>(reader)]);
    }
  }
  return after;
}

// Finds out why two kernels of a plan are not one.
class Judge {
 public:
  Judge(const Plan& plan, const PlanTensors& tensors, const DeviceModel& model)
      : plan_(plan),
        tensors_(tensors),
        after_(NeededBy(tensors)),
        costs_(plan.bucket, model, BestOnly()) {}

  std::string WhyApart(int from, int to) {
    const std::string families = WhyFamilies(from, to);
    if (!families.empty()) return families;
    for (int reader : tensors_.readers[static_cast<size_t>(from)]) {
      if (reader != to && after_[static_cast<size_t>(reader)].Contains(to)) {
        return "another kernel needs the first and feeds the second";
      }
    }
    const absl::StatusOr<Chain> joined =
        JoinBodies(NamedBodyOf(from), NamedBodyOf(to), WantedBesides(from, to));
    if (!joined.ok()) return std::string(joined.status().message());
    const std::string bounds = WhyTooLarge(*joined);
    return bounds.empty() ? Compare(*joined, from, to) : bounds;
  }

 private:
  static SearchOptions BestOnly() {
    SearchOptions options;
    options.top_k = 1;
    return options;
  }

  const PlannedKernel& kernel(int i) const { return plan_.kernels[static_cast<size_t>(i)]; }

  std::string WhyFamilies(int from, int to) const {
    const KernelFamily &first = *kernel(from).spec.family, &second = *kernel(to).spec.family;
    if (&first == &second) return std::string(first.traits().apart.alike);
    const absl::string_view why = first.traits().apart.reader;
    return std::string(why.empty() ? second.traits().apart.writer : why);
  }

  NamedBody NamedBodyOf(int i) const {
    const KernelTensors& own = tensors_.kernels[static_cast<size_t>(i)];
    NamedBody named{BodyOf(kernel(i)), own.reads};
    named.tensors.insert(named.tensors.end(), own.writes.begin(), own.writes.end());
    return named;
  }

  // Tensors that `from` writes and kernels other than `to` read.
  std::set<int> WantedBesides(int from, int to) const {
    std::set<int> wanted;
    for (int t : tensors_.kernels[static_cast<size_t>(from)].writes) {
      const PlanTensor& tensor = tensors_.tensors[static_cast<size_t>(t)];
      bool others = tensor.given_out;
      for (int reader : tensor.readers) others |= reader != to;
      if (others) wanted.insert(t);
    }
    return wanted;
  }

  static std::string WhyTooLarge(const Chain& joined) {
    const DeltaOptions bounds;
    const auto ops = static_cast<int>(joined.ops().size()) - joined.num_inputs();
    const bool reduces = std::any_of(joined.ops().begin(), joined.ops().end(), [](const Op& op) {
      return op.kind == OpKind::kReduce || TakesRow(op);
    });
    const int most = bounds.MostValues(reduces);
    if (ops > most) {
      return absl::StrCat("one kernel would have ", ops, " ops, at most ", most,
                          reduces ? " with reductions" : "", " are put together");
    }
    const int operands = joined.num_inputs() + joined.num_outputs();
    if (operands > bounds.max_operands) {
      return absl::StrCat("one kernel would have ", operands, " tensors, at most ",
                          bounds.max_operands);
    }
    return std::string(CheckBodyLength(joined).message());
  }

  std::string Compare(const Chain& joined, int from, int to) {
    const double apart = kernel(from).prediction.total_us + kernel(to).prediction.total_us;
    auto known = known_.find(joined.CanonicalDigest());
    if (known == known_.end()) {
      if (static_cast<int>(known_.size()) == kMostJoined) {
        return absl::StrCat("not looked at: more than ", kMostJoined, " different pairs");
      }
      known = known_.emplace(joined.CanonicalDigest(), costs_.LatencyUs(joined)).first;
    }
    if (!known->second.ok()) return std::string(known->second.status().message());
    const double us = *known->second;
    return absl::StrFormat("one kernel is predicted to take %.2f us, the two %.2f us%s", us, apart,
                           us < apart ? ": the exploration did not come to it" : "");
  }

  const Plan& plan_;
  const PlanTensors& tensors_;
  const std::vector<NodeSet> after_;
  SearchCosts costs_;
  std::map<Digest, absl::StatusOr<double>> known_;  // by joined body
};

int64_t HandedOver(const PlanTensors& tensors, int from, int to) {
  int64_t bytes = 0;
  for (int t : tensors.kernels[static_cast<size_t>(from)].writes) {
    const PlanTensor& tensor = tensors.tensors[static_cast<size_t>(t)];
    if (std::count(tensor.readers.begin(), tensor.readers.end(), to) > 0) bytes += tensor.bytes;
  }
  return bytes;
}

std::vector<ApartKernels> Apart(const Plan& plan, const PlanTensors& tensors,
                                const DeviceModel& model) {
  std::vector<ApartKernels> list;
  Judge judge(plan, tensors, model);
  const auto has_body = [&](int i) {
    return BodyOf(plan.kernels[static_cast<size_t>(i)]) != nullptr;
  };
  for (int from = 0; from + 1 < static_cast<int>(plan.kernels.size()); ++from) {
    std::set<int> others = tensors.readers[static_cast<size_t>(from)];
    if (has_body(from) && has_body(from + 1)) others.insert(from + 1);
    for (int to : others) {
      list.push_back({from, to, HandedOver(tensors, from, to), judge.WhyApart(from, to)});
    }
  }
  return list;
}

}  // namespace

absl::StatusOr<Chain> JoinBodies(const NamedBody& first, const NamedBody& second,
                                 const std::set<int>& wanted) {
  Joiner joiner;
  SINTER_ASSIGN_OR_RETURN(const std::vector<ValueId> head, joiner.Add(first));
  SINTER_ASSIGN_OR_RETURN(const std::vector<ValueId> tail, joiner.Add(second));
  SINTER_RETURN_IF_ERROR(joiner.AddOutputs(first, head, &wanted));
  SINTER_RETURN_IF_ERROR(joiner.AddOutputs(second, tail, nullptr));
  return joiner.Finish();
}

void ExplainFusion(const DeviceModel& model, Explanation* out) {
  const Plan& plan = out->plan;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    if (BodyOf(plan.kernels[i]) == nullptr) continue;
    AddOps(plan.kernels[i].spec, plan.bucket, &out->kernels[i]);
    out->saved_bytes += out->kernels[i].saved_bytes;
  }
  out->apart = Apart(plan, TensorsOf(plan), model);
}

}  // namespace sinter
