#include "src/engine/bound_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/chain/tensor_type.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

std::string BufferName(const Chain& chain, int canonical, const std::vector<int32_t>* order) {
  if (canonical >= chain.num_inputs()) {
    return absl::StrCat("output ", canonical - chain.num_inputs());
  }
  return absl::StrCat("input ", order == nullptr ? canonical : (*order)[canonical]);
}

bool HasRows(const Chain& chain, int canonical) {
  const int output = canonical - chain.num_inputs();
  const TensorType& type = output < 0 ? chain.input_op(canonical).type : chain.output_type(output);
  return SymbolicAxis(type.dims) >= 0;
}

// For a buffer that is never read or written: aligned and not null.
constexpr DevicePtr kNowhere = kBufferAlignment;

// Gives null buffers of rows an aligned address, which nothing reads or writes.
std::vector<DevicePtr> PlacedWithoutRows(const Chain& chain, std::vector<DevicePtr> buffers) {
  const auto count = static_cast<size_t>(chain.num_inputs() + chain.num_outputs());
  for (size_t i = 0; i < std::min(buffers.size(), count); ++i) {
    if (buffers[i] == 0 && HasRows(chain, static_cast<int>(i))) buffers[i] = kNowhere;
  }
  return buffers;
}

absl::Status CheckBuffers(const Chain& chain, const std::vector<DevicePtr>& buffers,
                          const std::vector<int32_t>* order) {
  const size_t want = static_cast<size_t>(chain.num_inputs() + chain.num_outputs());
  if (buffers.size() != want) {
    return Invalid("got ", Counted(buffers.size(), "buffer"), ", want ", want, ": ",
                   Counted(static_cast<uint64_t>(chain.num_inputs()), "input"), " and ",
                   Counted(static_cast<uint64_t>(chain.num_outputs()), "output"));
  }
  for (size_t i = 0; i < want; ++i) {
    if (buffers[i] == 0) {
      return Invalid("buffer of ", BufferName(chain, static_cast<int>(i), order), " is null");
    }
    if (buffers[i] % kBufferAlignment != 0) {
      return Invalid("buffer of ", BufferName(chain, static_cast<int>(i), order), " is at 0x",
                     absl::Hex(buffers[i]), ", must be aligned to ", kBufferAlignment);
    }
  }
  return absl::OkStatus();
}

// The most rows with which blocks `distance` > 0 bytes above `low` are known not to overlap it.
// With one row more they overlap; where the two pitches differ, that is assumed.
int64_t RowsApart(const BufferBlocks& low, const BufferBlocks& high, int64_t distance) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  if (low.width == 0 || high.width == 0) return kAny;
  if (!low.of_m) return distance < low.width ? 0 : kAny;
  const int64_t row = distance / low.pitch, column = distance % low.pitch;
  if (column < low.width) return row;
  // Past the columns of a row of `low`, up to the columns of the next one. Rows of another pitch
  // come to lie on other columns.
  const bool shifts = high.of_m && high.pitch % low.pitch != 0;
  return shifts || column + high.width > low.pitch ? row + 1 : kAny;
}

// The buffers' blocks, and the workspace's as the last one. Without rows, what has rows of M has no
// elements.
std::vector<BufferBlocks> BlocksToBind(const LoadedPlan& plan, bool no_rows) {
  std::vector<BufferBlocks> blocks = plan.blocks;
  const auto workspace = static_cast<int64_t>(plan.plan.workspace_bytes);
  blocks.push_back({workspace, workspace, false});
  for (size_t i = 0; i + 1 < blocks.size() && no_rows; ++i) {
    if (HasRows(plan.chain(), static_cast<int>(i))) blocks[i] = {};
  }
  return blocks;
}

// `places` in the order of `blocks`: inputs, outputs, workspace.
BufferOverlap FindOverlap(const LoadedPlan& plan, const std::vector<BufferBlocks>& blocks,
                          const std::vector<DevicePtr>& places, bool no_rows) {
  BufferOverlap first;
  const auto inputs = static_cast<size_t>(plan.chain().num_inputs());
  const size_t workspace = places.size() - 1;
  const auto empty = [&](size_t i) {
    if (i == workspace) return blocks[i].width == 0;
    return no_rows && HasRows(plan.chain(), static_cast<int>(i));
  };
  for (size_t written = inputs; written < places.size(); ++written) {
    if (empty(written)) continue;
    const int alias =
        written == workspace ? -1 : plan.chain().outputs()[written - inputs].alias_input;
    for (size_t other = 0; other < written; ++other) {
      if (empty(other)) continue;
      if (places[written] == places[other]) {
        if (static_cast<int>(other) == alias) continue;
        return {0, static_cast<int>(other), static_cast<int>(written), 0};
      }
      const bool above = places[written] > places[other];
      const size_t low = above ? other : written, high = above ? written : other;
      const auto distance = static_cast<int64_t>(places[high] - places[low]);
      const int64_t rows = RowsApart(blocks[low], blocks[high], distance);
      if (rows < first.rows)
        first = {rows, static_cast<int>(low), static_cast<int>(high), distance};
    }
  }
  return first;
}

absl::Status OverlapError(const LoadedPlan& plan, const BufferOverlap& overlap,
                          const std::vector<int32_t>* order) {
  const auto workspace = static_cast<int>(plan.blocks.size());
  const auto name = [&](absl::string_view what, int place) {
    return place == workspace ? std::string("the workspace")
                              : absl::StrCat(what, BufferName(plan.chain(), place, order));
  };
  const std::vector<BufferBlocks> blocks = BlocksToBind(plan, false);
  const BufferBlocks& low = blocks[static_cast<size_t>(overlap.low)];
  const std::string where =
      overlap.distance == 0
          ? absl::StrCat("where ", name("that of ", overlap.low), " does")
          : absl::StrCat(
                overlap.distance, " bytes into ", name("that of ", overlap.low), ", which has ",
                low.width, " bytes",
                low.of_m ? absl::StrCat(" in each row of M, ", low.pitch, " apart") : "",
                overlap.rows > 0 ? absl::StrCat(": they lie apart up to m = ", overlap.rows) : "");
  const bool scratch = overlap.low == workspace || overlap.high == workspace;
  return Invalid(
      name("buffer of ", overlap.high), " begins ", where,
      scratch ? "; a plan's workspace must be memory of its own"
              : "; an output's buffer must be its own, or that of the input declared as its alias");
}

// After this many rows every buffer has the alignment that it was bound with, however long its rows
// are. Kernels read vectors that span several rows, such as ids.
constexpr int64_t kAlignedRows = kBufferAlignment;

// The length of a pass: RowLimits::at_once, or fewer rows, whose messages the group's slots hold.
// Those are a multiple of kAlignedRows, unless a pass takes all rows of the plan's bucket. A plan
// that reduces over M or numbers its rows is then refused, since a pass would see only its own
// rows. A plan without M is refused too.
absl::StatusOr<int64_t> RowsOfGroup(const LoadedPlan& plan, const RankGroup& group) {
  int64_t most = plan.rows.at_once;
  for (const PlannedKernel& kernel : plan.plan.kernels) {
    const KernelFamily& family = *kernel.spec.family;
    if (family.TraitsOf(kernel.spec).ranks == 1) continue;
    most = std::min(most, family.RowsOfSlots(kernel.spec, group.slot_bytes()));
  }
  const int64_t whole = std::min(plan.rows.at_once, plan.plan.bucket);
  const int64_t pass = most < plan.rows.at_once ? most - most % kAlignedRows : most;
  if (most >= whole) return std::max(pass, whole);
  const bool in_passes = !plan.mixes_rows && plan.fixed_rows < 0;
  if (in_passes && pass > 0) return pass;
  return FailedPrecondition(
      "group.slot_bytes is ", group.slot_bytes(), ", the plan sends ",
      in_passes ? absl::StrCat("at least ", kAlignedRows, " rows") : absl::StrCat(whole, " rows"),
      " at once whose messages are longer: make the group with larger slots");
}

absl::Status CheckGroup(const Chain& chain, const RankGroup* group) {
  if (chain.ranks() == 1 && group == nullptr) return absl::OkStatus();
  if (chain.ranks() == 1) {
    return Invalid(
        "the chain is split over no ranks: bind its plan without a group (sinter_plan_bind)");
  }
  if (group == nullptr) {
    return FailedPrecondition("the chain is split over ", chain.ranks(),
                              " ranks: bind its plan to a group (sinter_plan_bind_group)");
  }
  if (group->size() == chain.ranks()) return absl::OkStatus();
  return FailedPrecondition("the chain is split over ", chain.ranks(), " ranks, the group has ",
                            group->size(), ": describe the chain with ranks ", group->size());
}

// The word by which kernels tell other ranks which plan they belong to.
uint64_t WordOf(const Digest& digest) {
  uint64_t word = 0;
  for (size_t i = 0; i < sizeof(word); ++i) word = word << 8 | digest.bytes[i];
  return word;
}

// How often the plan's kernels run for `m` rows.
int64_t PassesOf(const BoundPlan& bound, int64_t m) {
  const int64_t rows = bound.plan->fixed_rows >= 0 ? bound.plan->fixed_rows : m;
  return (rows + bound.at_once - 1) / bound.at_once;
}

// Where slots bound passes, they have equally many rows, of whole tiles if they may: a short one at
// the end would fill few SMs for nearly as long as a whole one. As many passes as PassesOf says.
int64_t RowsOfPass(const BoundPlan& bound, int64_t m) {
  constexpr int64_t kTileRows = 128;
  if (bound.at_once >= bound.plan->rows.at_once || m <= bound.at_once) return bound.at_once;
  const int64_t even = RoundUp(CeilDiv(m, CeilDiv(m, bound.at_once)), kTileRows);
  return std::min(even, bound.at_once);
}

absl::Status AddKernels(const BoundPlan& bound, GraphHandle graph, NodeEdges edges, int64_t m,
                        std::vector<GraphNodeHandle>* nodes) {
  return ForEachLaunch(
      *bound.plan, m, edges.programmatic,
      [&](const PlanLaunch& one) -> absl::Status {
        edges.programmatic = one.edge;
        const LoadedKernel& kernel = *bound.plan->kernels[one.kernel]->loaded;
        SINTER_ASSIGN_OR_RETURN(
            const GraphNodeHandle node,
            kernel.AddNode(*bound.kernels[one.kernel], graph, edges, one.rows, one.offset));
        nodes->push_back(node);
        edges.from.assign(1, node);
        return absl::OkStatus();
      },
      RowsOfPass(bound, m));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const BoundPlan>> BindPlan(LoadedPlanPtr plan,
                                                          const std::vector<DevicePtr>& given,
                                                          DevicePtr workspace, bool no_rows,
                                                          const std::vector<int32_t>* order,
                                                          std::shared_ptr<RankGroup> group) {
  SINTER_RETURN_IF_ERROR(CheckGroup(plan->chain(), group.get()));
  const std::vector<DevicePtr> buffers = no_rows ? PlacedWithoutRows(plan->chain(), given) : given;
  SINTER_RETURN_IF_ERROR(CheckBuffers(plan->chain(), buffers, order));
  SINTER_RETURN_IF_ERROR(CheckWorkspace(plan->plan, workspace, plan->plan.workspace_bytes));
  auto bound = std::make_shared<BoundPlan>();
  std::vector<DevicePtr> places = buffers;
  places.push_back(workspace);
  bound->overlap = FindOverlap(*plan, BlocksToBind(*plan, no_rows), places, no_rows);
  if (bound->overlap.rows == 0) return OverlapError(*plan, bound->overlap, order);
  const std::vector<DevicePtr> planned = plan->form->Expand(buffers);
  BufferList list{planned.data(), static_cast<int>(planned.size()), workspace};
  bound->at_once = plan->rows.at_once;
  if (group != nullptr) {
    SINTER_ASSIGN_OR_RETURN(bound->at_once, RowsOfGroup(*plan, *group));
    list.room = group->room();
    list.plan = WordOf(plan->plan.PlanDigest());
    bound->group = std::move(group);
  }
  if (plan->check_bind) SINTER_RETURN_IF_ERROR(plan->check_bind(*plan, bound->at_once));
  for (size_t i = 0; i < plan->kernels.size(); ++i) {
    SINTER_ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> one,
                            plan->kernels[i]->loaded->Bind(plan->recipes[i], list));
    bound->kernels.push_back(std::move(one));
  }
  bound->plan = std::move(plan);
  return bound;
}

absl::Status CheckRows(const LoadedPlan& plan, int64_t m) {
  if (plan.fixed_rows >= 0) return absl::OkStatus();
  if (m >= 0 && m <= plan.rows.most) return absl::OkStatus();
  return OutOfRange("m is ", m, ", must be in [0, ", BoundText(plan.rows.most), "] for this plan");
}

absl::Status CheckOverlap(const BoundPlan& bound, int64_t m, const std::vector<int32_t>* order) {
  if (m <= bound.overlap.rows) return absl::OkStatus();
  return OverlapError(*bound.plan, bound.overlap, order);
}

int64_t BucketsFilled(const LoadedPlan& plan, int64_t m) {
  const int64_t rows = plan.fixed_rows >= 0 ? plan.fixed_rows : m;
  const int64_t pass = std::min(plan.rows.at_once, kLargestBucket);
  return (rows + pass - 1) / pass;
}

std::string LaunchedName(const LoadedPlan& plan, size_t kernel) {
  return absl::StrCat("kernel ", kernel, " (", plan.recipes[kernel].entry,
                      plan.plan.IsStandIn() ? ", a stand-in" : "", ") of plan '", plan.plan.name(),
                      "' ", plan.chosen_digest.Hex().substr(0, 16));
}

absl::Status EnqueuePlan(const BoundPlan& bound, StreamHandle stream, int64_t m, bool pdl_edge,
                         bool* half_sent) {
  const LoadedPlan& plan = *bound.plan;
  const KernelSpec* before = nullptr;  // of the last kernel that was launched
  const auto launch = [&](const PlanLaunch& one) {
    absl::Status status = plan.kernels[one.kernel]->loaded->Launch(
        *bound.kernels[one.kernel], stream, one.rows, one.offset, one.edge);
    if (status.ok()) {
      before = &plan.plan.kernels[one.kernel].spec;
      return status;
    }
    if (half_sent != nullptr && before != nullptr) {
      *half_sent = ProductOf(*before).schedule.pushes > 0;
    }
    return Annotate(status, absl::StrCat("launching ", LaunchedName(plan, one.kernel)));
  };
  return ForEachLaunch(plan, m, pdl_edge, launch, RowsOfPass(bound, m));
}

absl::StatusOr<PlanNodes> AddPlanNodes(const BoundPlan& bound, Loader& loader, GraphHandle graph,
                                       NodeEdges edges, int64_t m) {
  PlanNodes result;
  result.plan = bound.plan;
  result.group = bound.group;
  result.passes = PassesOf(bound, m);
  if (result.passes == 0 && bound.plan->without_rows.empty()) {
    SINTER_ASSIGN_OR_RETURN(const GraphNodeHandle node, loader.AddEmptyNode(graph, edges));
    result.nodes.push_back(node);
    return result;
  }
  result.nodes.reserve(result.passes == 0
                           ? bound.plan->without_rows.size()
                           : static_cast<size_t>(result.passes) * bound.kernels.size());
  absl::Status status = AddKernels(bound, graph, std::move(edges), m, &result.nodes);
  if (status.ok()) status = loader.TieToGraph(graph, bound.plan);
  if (status.ok() && bound.group != nullptr) status = loader.TieToGraph(graph, bound.group);
  if (status.ok()) return result;
  for (auto node = result.nodes.rbegin(); node != result.nodes.rend(); ++node) {
    loader.RemoveNode(*node);
  }
  return status;
}

absl::Status UpdatePlanNodes(const PlanNodes& nodes, GraphExecHandle exec, const BoundPlan& bound,
                             int64_t m) {
  if (nodes.plan != bound.plan) {
    return FailedPrecondition(
        "the nodes run another plan than the binding's: build the graph again");
  }
  if (nodes.group != bound.group) {
    return FailedPrecondition(
        "the nodes run over another group than the binding's, and their graph keeps only theirs: "
        "bind the plan to that group, or build the graph again");
  }
  const int64_t passes = PassesOf(bound, m);
  if (passes != nodes.passes) {
    return FailedPrecondition("m ", m, " takes ", passes, " passes, the nodes were added for ",
                              nodes.passes, ": build the graph again");
  }
  size_t next = 0;
  const auto update = [&](const PlanLaunch& one) {
    return bound.plan->kernels[one.kernel]->loaded->UpdateNode(
        exec, nodes.nodes[next++], *bound.kernels[one.kernel], one.rows, one.offset);
  };
  return ForEachLaunch(*bound.plan, m, false, update, RowsOfPass(bound, m));
}

absl::Status CheckWorkspace(const Plan& plan, DevicePtr workspace, uint64_t bytes) {
  if (plan.workspace_bytes == 0) return absl::OkStatus();
  if (workspace == 0) {
    return Invalid("workspace is null, the plan needs ", plan.workspace_bytes, " bytes");
  }
  if (workspace % kWorkspaceAlignment != 0) {
    return Invalid("workspace is at 0x", absl::Hex(workspace), ", must be aligned to ",
                   kWorkspaceAlignment);
  }
  if (bytes < plan.workspace_bytes) {
    return Invalid("workspace has ", Counted(bytes, "byte"), ", the plan needs ",
                   plan.workspace_bytes);
  }
  return absl::OkStatus();
}

absl::Status ClearHeader(const Plan& plan, Loader& loader, DevicePtr workspace,
                         StreamHandle stream) {
  const uint64_t bytes = std::min(plan.workspace_bytes, kWorkspaceFlagBytes);
  return bytes == 0 ? absl::OkStatus() : loader.MemsetAsync(workspace, 0, bytes, stream);
}

}  // namespace sinter
