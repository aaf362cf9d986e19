// sinter_x_*: descriptions of contexts and plans; events; what is written, written now.
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "src/base/arch.h"
#include "src/base/enough_stack.h"
#include "src/base/format.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/engine/cache_tools.h"
#include "src/explain/explain.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

using Json = nlohmann::ordered_json;

// One `key = value` line of a model: numbers as numbers, lists as arrays.
Json ModelValue(absl::string_view text) {
  Json list = Json::array();
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    double number = 0;
    if (absl::SimpleAtod(word, &number)) {
      list.push_back(number);
    } else {
      list.push_back(std::string(word));
    }
  }
  return list.size() == 1 ? list[0] : list;
}

Json ModelJson(const DeviceModel& model) {
  Json object = Json::object();
  const std::string text = model.ToText();
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line.substr(0, line.find('[')), absl::MaxSplits(" = ", 1));
    object[std::string(field.first)] = ModelValue(field.second);
  }
  return object;
}

Json ProvenanceJson(const DeviceModel& model) {
  Json object = Json::object();
  for (const auto& [key, provenance] : model.provenance) object[key] = provenance.ToText();
  return object;
}

// Texts repeat what files and servers say: they are made printable, like the log's.
void Deliver(sinter_x_event_callback callback, uintptr_t user_data, const LogSink& log,
             const EngineEvent& from) {
  const std::string subject = Printable(from.subject), reason = Printable(from.reason);
  sinter_x_event event = SINTER_INIT(sinter_x_event);
  event.kind = static_cast<sinter_x_event_kind>(from.kind);
  event.bucket = from.bucket;
  event.us = from.us;
  event.bytes = from.bytes;
  std::memcpy(event.chain_digest, from.chain.bytes.data(), sizeof(event.chain_digest));
  std::memcpy(event.plan_digest, from.plan.bytes.data(), sizeof(event.plan_digest));
  event.subject = subject.c_str();
  event.tier = from.tier.c_str();
  event.reason = reason.c_str();
  const sinter_x_event* const told = &event;
  const absl::Status called = CallOut("event", callback, user_data, told);
  if (!called.ok()) log.Log(LogLevel::kError, called.message());
}

}  // namespace

std::string DescribeContext(const sinter_context& context) {
  const Ports& ports = context.engine->ports();
  Json object;
  object["library"] = sinter_build_info();
  object["gpu"] = ports.loader != nullptr;
  object["device"] = ports.device_name;
  object["driver"] = ports.driver_name;
  object["reason"] = ports.no_gpu_reason;
  object["cache_dir"] = context.config.cache_enabled ? context.config.cache_dir : "";
  object["must_hit"] = context.config.must_hit;
  object["model"] = ModelJson(ports.model);
  const absl::StatusOr<ArchFeatures> features = FeaturesOf(ports.model.arch);
  object["model"]["products"] = features.ok() && features->products;
  object["provenance"] = ProvenanceJson(ports.model);
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// sinter_x_device_*, sinter_x_time: device memory and measuring.

namespace {

absl::StatusOr<Measurer*> MeasurerOf(const sinter_context* context) {
  SINTER_RETURN_IF_ERROR(Check(context, "context"));
  const Ports& ports = context->engine->ports();
  if (ports.measurer != nullptr) return ports.measurer.get();
  return Unavailable("no GPU: ", ports.no_gpu_reason);
}

absl::StatusOr<double> TimeBindings(Measurer& measurer,
                                    const std::vector<const sinter_binding*>& bindings, int64_t m,
                                    const sinter_x_time_options& options) {
  const bool pdl = (options.flags & SINTER_LAUNCH_PDL) != 0;
  const auto enqueue = [&](StreamHandle stream, int i) {
    const sinter_binding& next = *bindings[static_cast<size_t>(i) % bindings.size()];
    return next.prepared->Launch(*next.binding, stream, m, pdl);
  };
  const int calls = options.calls == 0 ? 20 : static_cast<int>(std::min(options.calls, 10000u));
  const int replays =
      options.replays == 0 ? 15 : static_cast<int>(std::min(options.replays, 10000u));
  return measurer.TimeGraph({enqueue}, calls, replays);
}

absl::StatusOr<std::vector<const sinter_binding*>> ReadBindings(
    uint32_t count, const sinter_binding* const* bindings) {
  if (count == 0) return InvalidField("count", "0", ">= 1");
  SINTER_RETURN_IF_ERROR(CheckNotNull(bindings, "bindings"));
  for (uint32_t i = 0; i < count; ++i) {
    SINTER_RETURN_IF_ERROR(Check(bindings[i], absl::StrCat("bindings[", i, "]")));
  }
  return std::vector<const sinter_binding*>(bindings, bindings + count);
}

}  // namespace
}  // namespace sinter::capi

using Text = absl::StatusOr<std::string>;

namespace {

Text MadeOnEnoughStack(absl::FunctionRef<Text()> make) {
  Text text;
  const absl::Status ran = sinter::OnEnoughStack([&] {
    text = make();
    return absl::OkStatus();
  });
  return ran.ok() ? text : Text(ran);
}

}  // namespace

extern "C" {

sinter_status sinter_x_context_describe(const sinter_context* context, sinter_x_text** out_json,
                                        sinter_error** error) {
  return capi::GiveText(out_json, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    return capi::DescribeContext(*context);
  });
}

sinter_status sinter_x_cache_flush(sinter_context* context, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    context->engine->WriteTraceNow();
    sinter::CacheTools* const tools = context->engine->ports().cache_tools.get();
    if (tools == nullptr) return sinter::Unavailable("the context's cache has no tools");
    tools->Flush();
    return absl::OkStatus();
  });
}

sinter_status sinter_x_context_on_event(sinter_context* context, sinter_x_event_callback callback,
                                        uintptr_t user_data, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    if (callback == nullptr) {
      return sinter::WithField(sinter::Invalid("callback is null"), "callback", "null");
    }
    return context->engine->TellEvents(
        [callback, user_data, log = context->log](const sinter::EngineEvent& event) {
          capi::Deliver(callback, user_data, log, event);
        });
  });
}

sinter_status sinter_x_plan_to_json(const sinter_plan* plan, sinter_x_text** out_json,
                                    sinter_error** error) {
  return capi::GiveText(out_json, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    return sinter::PlanJson(plan->prepared->plan());
  });
}

sinter_status sinter_x_plan_summary(const sinter_plan* plan, sinter_x_text** out_text,
                                    sinter_error** error) {
  return capi::GiveText(out_text, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    return MadeOnEnoughStack([&] { return sinter::PrintableLines(plan->prepared->Summary()); });
  });
}

sinter_status sinter_x_plan_svg(const sinter_plan* plan, sinter_x_text** out_svg,
                                sinter_error** error) {
  return capi::GiveText(out_svg, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    return MadeOnEnoughStack([&] { return plan->prepared->Svg(); });
  });
}

sinter_status sinter_x_plan_get_source(const sinter_plan* plan, uint32_t kernel,
                                       sinter_x_text** out_source, sinter_error** error) {
  return capi::GiveText(out_source, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    const size_t count = plan->prepared->plan().kernels.size();
    if (kernel >= count) {
      return sinter::OutOfRange("kernel is ", kernel, ", the plan has ", count, " kernels");
    }
    return MadeOnEnoughStack([&] { return plan->prepared->SourceOf(static_cast<int>(kernel)); });
  });
}

sinter_status sinter_x_device_alloc(sinter_context* context, uint64_t bytes,
                                    sinter_device_ptr* out_ptr, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_ptr, "out_ptr"));
    SINTER_ASSIGN_OR_RETURN(sinter::Measurer * measurer, capi::MeasurerOf(context));
    SINTER_ASSIGN_OR_RETURN(const sinter::DeviceBuffer buffer, measurer->Allocate(bytes));
    *out_ptr = buffer.ptr;
    return absl::OkStatus();
  });
}

void sinter_x_device_free(sinter_context* context, sinter_device_ptr ptr, uint64_t bytes) {
  if (ptr == 0) return;
  capi::Guard(nullptr, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(sinter::Measurer * measurer, capi::MeasurerOf(context));
    measurer->Free({ptr, bytes});
    return absl::OkStatus();
  });
}

sinter_status sinter_x_device_fill(sinter_context* context, sinter_device_ptr ptr, uint64_t bytes,
                                   uint8_t byte, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(sinter::Measurer * measurer, capi::MeasurerOf(context));
    return measurer->Fill({ptr, bytes}, byte);
  });
}

sinter_status sinter_x_time(sinter_context* context, uint32_t count,
                            const sinter_binding* const* bindings, uint32_t symbol_count,
                            const int64_t* symbols, const sinter_x_time_options* options,
                            double* out_us, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(sinter::Measurer * measurer, capi::MeasurerOf(context));
    SINTER_ASSIGN_OR_RETURN(const auto given,
                            capi::ReadOptions(options, "time", SINTER_LAUNCH_PDL));
    SINTER_ASSIGN_OR_RETURN(const auto list, capi::ReadBindings(count, bindings));
    SINTER_ASSIGN_OR_RETURN(const int64_t m, capi::SymbolM(list[0]->uses_m, symbol_count, symbols));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_us, "out_us"));
    SINTER_ASSIGN_OR_RETURN(*out_us, capi::TimeBindings(*measurer, list, m, given));
    return absl::OkStatus();
  });
}

}  // extern "C"
