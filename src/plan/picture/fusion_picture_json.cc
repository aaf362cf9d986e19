// A fusion picture as JSON. The field names are a stable format: see fusion_picture.h.
#include <nlohmann/json.hpp>
#include <utility>

#include "src/plan/picture/fusion_picture.h"

namespace sinter {
namespace {

using Json = nlohmann::ordered_json;

std::string Str(absl::string_view s) { return std::string(s.data(), s.size()); }

Json OpJson(const OpPicture& op) {
  Json reads = Json::array();
  for (const OpRead& read : op.reads) {
    Json one = read.op < 0 ? Json{{"tensor", read.tensor}}
                           : Json{{"op", read.op}, {"composition", Str(NameOf(read.by))}};
    if (!read.through.empty()) one["through"] = read.through;
    reads.push_back(std::move(one));
  }
  return {{"name", op.name},
          {"type", op.type},
          {"reads", reads},
          {"writes", op.writes},
          {"saved_bytes", op.saved_bytes}};
}

Json TensorsJson(const std::vector<TensorPicture>& tensors, bool read) {
  Json list = Json::array();
  for (const TensorPicture& tensor : tensors) {
    Json one = {{"place", tensor.place}, {"type", tensor.type}, {"bytes", tensor.bytes}};
    if (read) one["kernel"] = tensor.kernel;
    list.push_back(one);
  }
  return list;
}

Json KernelJson(const KernelFusion& fusion) {
  Json ops = Json::array(), parts = Json::array(), edges = Json::object();
  for (const OpPicture& op : fusion.ops) ops.push_back(OpJson(op));
  for (const auto& alike : fusion.parts) parts.push_back(alike);
  for (int i = 0; i < kCompositions; ++i) {
    edges[Str(NameOf(Composition(i)))] = fusion.edges[static_cast<size_t>(i)];
  }
  Json json = {{"ops", ops},
               {"inlined", fusion.inlined},
               {"reads", TensorsJson(fusion.reads, true)},
               {"writes", TensorsJson(fusion.writes, false)},
               {"parts", parts},
               {"edges", edges},
               {"border_bytes", fusion.border_bytes},
               {"saved_bytes", fusion.saved_bytes}};
  if (fusion.times.known) {
    json["times"] = {{"issue_us", fusion.times.issue_us},
                     {"latency_us", fusion.times.latency_us},
                     {"together_us", fusion.times.together_us},
                     {"fixed_us", fusion.times.fixed_us}};
  }
  for (const HandPicture& hand : fusion.hands) {
    json["hands"].push_back({{"value", hand.value},
                             {"bytes", hand.bytes},
                             {"offset", hand.offset},
                             {"instead", hand.instead}});
  }
  return json;
}

}  // namespace

std::string FusionJson(const FusionPicture& picture) {
  Json kernels = Json::array(), apart = Json::array();
  for (const KernelFusion& kernel : picture.kernels) kernels.push_back(KernelJson(kernel));
  for (const ApartKernels& pair : picture.apart) {
    apart.push_back(
        {{"from", pair.from}, {"to", pair.to}, {"bytes", pair.bytes}, {"why", pair.why}});
  }
  const Json json = {{"saved_bytes", picture.saved_bytes},
                     {"equal_kernels", picture.equal},
                     {"kernels", kernels},
                     {"not_fused", apart}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sinter
